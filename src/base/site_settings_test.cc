#include "base/site_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace ronde {
namespace {

using testing::HasSubstr;

TEST(SiteSettingsParse, LinesAreNamesAndValues) {
  auto settings = SiteSettings::parse("file",
                                            "# What this cluster has.\n"
                                            "\n"
                                            "RONDE_BACKEND=mpi\n"
                                            "  RONDE_TABLE\t= ranks 2: chunk=4  \r\n"
                                            "  # RONDE_PROBE=0\n"
                                            "RONDE_TIMEOUT_S=5");
  ASSERT_TRUE(settings) << settings.status().message();
  EXPECT_EQ(settings->find("RONDE_BACKEND"), "mpi");
  EXPECT_EQ(settings->find("RONDE_TABLE"), "ranks 2: chunk=4");
  EXPECT_EQ(settings->find("RONDE_TIMEOUT_S"), "5");
  EXPECT_EQ(settings->find("RONDE_PROBE"), std::nullopt);
  EXPECT_EQ(settings->find("RONDE"), std::nullopt);
}

TEST(SiteSettingsParse, NothingIsNoSettings) {
  for (const char* const text : {"", "\n", "\n\n#", "  \t\n# RONDE_BACKEND=mpi"}) {
    EXPECT_TRUE(SiteSettings::parse("file", text)) << text;
  }
}

TEST(SiteSettingsParse, MistakesAreNamedWithTheirLine) {
  struct Case {
    const char* text;
    const char* said;
  };
  for (const Case& each : {
           Case{"\nRONDE_BACKEND mpi\n", "file, line 2: expected NAME=VALUE"},
           Case{"RONDE_BACKEND=\n", "file, line 1: expected NAME=VALUE"},
           Case{"=mpi\n", "file, line 1: a site cannot set ''"},
           Case{"RONDE_BACKEND=m\x01pi\n", "file, line 1: expected NAME=VALUE"},
           Case{"#\n#\nRONDE_KEY=0\n", "file, line 3: a site cannot set 'RONDE_KEY'; it can set RONDE_BACKEND, "},
           Case{"ronde_backend=mpi\n", "file, line 1: a site cannot set 'ronde_backend'"},
           Case{"RONDE_PROBE=0\nRONDE_PROBE=0", "file, line 2: RONDE_PROBE for the second time"},
       }) {
    auto settings = SiteSettings::parse("file", each.text);
    ASSERT_FALSE(settings) << each.text;
    EXPECT_EQ(settings.status().code(), Code::invalid_argument);
    EXPECT_THAT(settings.status().message(), HasSubstr(each.said));
  }
}

class SiteSettingsFile : public testing::Test {
 protected:
  SiteSettingsFile() { std::filesystem::remove(path_); }
  ~SiteSettingsFile() override { std::filesystem::remove(path_); }

  void write(const std::string& text, mode_t mode = 0644) {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
  }

  std::string path_ = testing::TempDir() + "ronde_site_settings." + std::to_string(::getpid());
};

TEST_F(SiteSettingsFile, IsRead) {
  write("RONDE_BACKEND=mpi\n");
  auto settings = read_site_settings(path_, false);
  ASSERT_TRUE(settings) << settings.status().message();
  EXPECT_EQ(settings->find("RONDE_BACKEND"), "mpi");
  EXPECT_EQ(settings->path(), path_);
}

TEST_F(SiteSettingsFile, MayBeAbsentWhereNobodyNamedIt) {
  ASSERT_TRUE(read_site_settings(path_, true));
  EXPECT_EQ(read_site_settings(path_, true)->path(), "");
  auto settings = read_site_settings(path_, false);
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.status().code(), Code::system_error);
  EXPECT_THAT(settings.status().message(), HasSubstr(path_ + ": No such file"));
}

TEST_F(SiteSettingsFile, ThatOthersMayWriteIsNotTrusted) {
  for (const mode_t mode : {0664, 0646}) {
    write("RONDE_BACKEND=mpi\n", mode);
    auto settings = read_site_settings(path_, true);
    ASSERT_FALSE(settings);
    EXPECT_EQ(settings.status().code(), Code::auth_failed);
    EXPECT_THAT(settings.status().message(), HasSubstr(path_ + ", cannot be trusted"));
  }
}

TEST_F(SiteSettingsFile, OfAnotherKindOrTooLargeIsRefused) {
  EXPECT_EQ(read_site_settings(testing::TempDir(), true).status().code(), Code::auth_failed);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(read_site_settings(path_, true).status().code(), Code::auth_failed);
  std::filesystem::remove(path_);
  write(std::string(65536, '#'));
  EXPECT_TRUE(read_site_settings(path_, true));
  write(std::string(65537, '#'));
  EXPECT_EQ(read_site_settings(path_, true).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace ronde
