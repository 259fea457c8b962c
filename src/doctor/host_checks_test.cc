#include "doctor/host_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "doctor/python_check.h"

namespace ronde::doctor {
namespace {

using testing::HasSubstr;

const Finding* finding_about(const HostReport& report, const std::string& subject) {
  const auto found = std::find_if(report.findings.begin(), report.findings.end(),
                                  [&](const Finding& each) { return each.subject == subject; });
  return found == report.findings.end() ? nullptr : &*found;
}

/// A PATH with nothing in it but a Python that answers with `program`, a shell script; empty: none.
class OwnPython : public testing::Test {
 protected:
  void SetUp() override {
    before_ = ::getenv("PATH");
    folder_ = testing::TempDir() + "doctor-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ::setenv("PATH", folder_.c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", before_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  void answer(const std::string& program) {
    std::ofstream(folder_ + "/python") << "#!/bin/sh\n" << program << "\n";
    ::chmod((folder_ + "/python").c_str(), 0755);
  }

 private:
  std::string before_;
  std::string folder_;
};

TEST_F(OwnPython, ThisHostIsLookedAt) {
  ::setenv("RONDE_TIMEOUT_S", "7", 1);
  ::setenv("RONDE_KEY", "c0ffee", 1);
  const HostReport report = examine_host();
  ::unsetenv("RONDE_TIMEOUT_S");
  ::unsetenv("RONDE_KEY");
  for (const char* const subject : {"system", "shared memory", "private folder", "open files", "deaths", "host name",
                                    "network", "clock", "ssh", "settings", "Python"}) {
    EXPECT_NE(finding_about(report, subject), nullptr) << subject;
  }
  EXPECT_EQ(finding_about(report, "shared memory")->grade, Grade::ok);
  EXPECT_THAT(finding_about(report, "settings")->text, HasSubstr("RONDE_TIMEOUT_S=7"));
  EXPECT_THAT(encode(report), testing::Not(HasSubstr("c0ffee"))) << "a secret";
  EXPECT_EQ(finding_about(report, "ssh")->text, "is in no folder of PATH");
  EXPECT_EQ(finding_about(report, "Python")->text, "is in no folder of PATH");
}

TEST_F(OwnPython, WhatItSaysIsTaken) {
  answer(
      R"(echo '{"python": "3.12.1", "path": "/p", "packages": {"torch": "2.13.0", "ronde": "0.1.0"}, "failure": ""}')");
  HostReport report;
  add_python(report);
  EXPECT_EQ(report.python, "3.12.1");
  EXPECT_EQ(report.packages.size(), 2U);
  EXPECT_EQ(finding_about(report, "packages")->text, "ronde 0.1.0, torch 2.13.0");
  EXPECT_EQ(finding_about(report, "import ronde"), nullptr);
}

TEST_F(OwnPython, AnImportThatFailsIsAFailureWhereRondeIsInstalled) {
  answer(R"(echo '{"python": "3.12.1", "path": "/p", "packages": {"ronde": "0.1.0"}, "failure": "OSError: no"}')");
  HostReport report;
  add_python(report);
  EXPECT_EQ(finding_about(report, "import ronde")->grade, Grade::failure);
  EXPECT_EQ(finding_about(report, "import ronde")->text, "OSError: no");
}

TEST_F(OwnPython, FrameworksThatDoNotWorkAreNamed) {
  answer(R"(echo '{"python": "3.12.1", "path": "/p", "packages": {"ronde": "0.1.0"}, "failure": "",)"
         R"( "tried": {"jax": "", "torch": "ImportError: libgomp", "numpy": ""}}')");
  HostReport report;
  add_python(report);
  EXPECT_EQ(finding_about(report, "frameworks")->text, "jax, numpy work with Ronde: each was tried");
  ASSERT_NE(finding_about(report, "torch"), nullptr);
  EXPECT_EQ(finding_about(report, "torch")->grade, Grade::warning);
  EXPECT_THAT(finding_about(report, "torch")->text, HasSubstr("ImportError: libgomp"));
  EXPECT_THAT(finding_about(report, "torch")->advice, HasSubstr("ronde.torch"));
}

TEST_F(OwnPython, AnAnswerThatMakesNoSenseIsAWarning) {
  for (const char* const program : {"exit 1", "echo nonsense", "echo '[1]'", "echo '{}'"}) {
    answer(program);
    HostReport report;
    add_python(report);
    EXPECT_EQ(finding_about(report, "Python")->grade, Grade::warning) << program;
  }
}

}  // namespace
}  // namespace ronde::doctor
