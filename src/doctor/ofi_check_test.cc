#include "doctor/ofi_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace ronde::doctor {
namespace {

using testing::HasSubstr;

TEST(OfiCheck, SaysWhichIsTakenAndWhyOthersAreNot) {
  const std::string text = about_providers({"tcp;ofi_rxm", "net", "psm3", "sockets"});
  EXPECT_THAT(text, HasSubstr("takes net, of tcp;ofi_rxm, net, psm3 (untested);"));
  EXPECT_THAT(text, HasSubstr("not used are sockets: libfabric has given it up"));
}

TEST(OfiCheck, SaysThatNoneIsTaken) {
  EXPECT_THAT(about_providers({"shm"}), HasSubstr("takes none by itself, of none; not used are shm: "));
  EXPECT_THAT(about_providers({"udp;ofi_rxd"}), HasSubstr("takes none by itself, of udp;ofi_rxd (untested)"));
}

TEST(OfiCheck, ALibraryThatIsNotThereIsANotice) {
  ::setenv("RONDE_OFI_LIBRARY", "/nowhere/libfabric.so.1", 1);
  HostReport report;
  add_ofi(report);
  ::unsetenv("RONDE_OFI_LIBRARY");
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].grade, Grade::notice);
  EXPECT_THAT(report.findings[0].text, HasSubstr("RONDE_OFI_LIBRARY names no libfabric"));
}

TEST(OfiCheck, WhatIsHereIsLookedAtApart) {
  HostReport report;
  add_ofi(report);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].subject, "libfabric");
  if (report.findings[0].grade == Grade::ok) {
    EXPECT_THAT(report.findings[0].text, HasSubstr("RONDE_TRANSPORT=ofi takes "));
  }
}

}  // namespace
}  // namespace ronde::doctor
