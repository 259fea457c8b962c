#include "doctor/oneccl_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace ronde::doctor {
namespace {

using testing::HasSubstr;

TEST(OneCclCheck, WhatIsNoneSaysWhy) {
  for (const auto& [file, why] : {std::pair{"/nowhere/libccl.so.2", "RONDE_ONECCL_LIBRARY cannot be opened: /nowhere"},
                                  std::pair{"libc.so.6", "oneCCL's library has no onecclGetVersion"}}) {
    ::setenv("RONDE_ONECCL_LIBRARY", file, 1);
    HostReport report;
    add_oneccl(report);
    ::unsetenv("RONDE_ONECCL_LIBRARY");
    ASSERT_EQ(report.findings.size(), 1U);
    EXPECT_EQ(report.findings[0].grade, Grade::notice);
    EXPECT_THAT(report.findings[0].text, HasSubstr(why));
  }
}

}  // namespace
}  // namespace ronde::doctor
