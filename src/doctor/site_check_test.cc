#include "doctor/site_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::doctor {
namespace {

using testing::HasSubstr;

TEST(SiteCheck, WhatAFileSaysIsShown) {
  const std::optional<Finding> finding =
      site_finding(SiteSettings::parse("/etc/ronde.conf", "RONDE_BACKEND=mpi\nRONDE_SSH=ssh -o password=c0ffee\n"));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->grade, Grade::notice);
  EXPECT_EQ(finding->text, "/etc/ronde.conf: RONDE_BACKEND=mpi, RONDE_SSH");
}

TEST(SiteCheck, AFileOfCommentsSaysNothing) {
  const std::optional<Finding> finding = site_finding(SiteSettings::parse("/etc/ronde.conf", "# none\n"));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->text, "/etc/ronde.conf says nothing");
}

TEST(SiteCheck, AFileThatCannotBeReadIsAFailure) {
  const std::optional<Finding> finding = site_finding(SiteSettings::parse("/etc/ronde.conf", "RONDE_RANK=1\n"));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->grade, Grade::failure);
  EXPECT_THAT(finding->text, HasSubstr("/etc/ronde.conf, line 1: a site cannot set 'RONDE_RANK'"));
  EXPECT_THAT(finding->advice, HasSubstr("no job begins"));
}

TEST(SiteCheck, WithoutAFileThereIsNothing) { EXPECT_FALSE(site_finding(SiteSettings())); }

}  // namespace
}  // namespace ronde::doctor
