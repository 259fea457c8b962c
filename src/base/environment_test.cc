#include "base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace ronde {
namespace {

/// Variables for the duration of a test; those of the process are put back.
class Environment : public testing::Test {
 protected:
  void set(const std::string& name, const std::string& value) {
    const char* before = std::getenv(name.c_str());
    before_.emplace_back(name, before == nullptr ? std::nullopt : std::optional<std::string>(before));
    ::setenv(name.c_str(), value.c_str(), 1);
  }

  void TearDown() override {
    for (auto each = before_.rbegin(); each != before_.rend(); ++each) {
      if (each->second) {
        ::setenv(each->first.c_str(), each->second->c_str(), 1);
      } else {
        ::unsetenv(each->first.c_str());
      }
    }
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

TEST_F(Environment, EmptyIsAbsent) {
  set("RONDE_STALL_S", "");
  EXPECT_EQ(environment_text("RONDE_STALL_S"), std::nullopt);
  EXPECT_EQ(environment_number("RONDE_STALL_S", 0).value(), std::nullopt);
}

TEST_F(Environment, HorovodsNameCountsWhereOursIsAbsent) {
  set("RONDE_FUSION_THRESHOLD", "");
  set("HOROVOD_FUSION_THRESHOLD", "4096");
  EXPECT_EQ(environment_integer("RONDE_FUSION_THRESHOLD", 0, 1 << 20).value(), 4096);
  set("RONDE_FUSION_THRESHOLD", "64");
  EXPECT_EQ(environment_integer("RONDE_FUSION_THRESHOLD", 0, 1 << 20).value(), 64);
}

TEST_F(Environment, TheErrorNamesTheVariableThatWasSet) {
  set("RONDE_STALL_S", "");
  set("HOROVOD_STALL_CHECK_TIME_SECONDS", "soon");
  EXPECT_EQ(environment_number("RONDE_STALL_S", 0).status().message(),
            "the environment variable HOROVOD_STALL_CHECK_TIME_SECONDS is 'soon'; expected a number of at least 0.0");
}

TEST_F(Environment, NoStallCheckIsAPeriodOfZero) {
  set("RONDE_STALL_S", "");
  set("HOROVOD_STALL_CHECK_TIME_SECONDS", "5");
  set("HOROVOD_STALL_CHECK_DISABLE", "0");
  EXPECT_EQ(environment_number("RONDE_STALL_S", 0).value(), 5.0);
  set("HOROVOD_STALL_CHECK_DISABLE", "1");
  EXPECT_EQ(environment_number("RONDE_STALL_S", 0).value(), 0.0);
}

TEST_F(Environment, ACacheOfNoEntriesIsNoReplay) {
  set("RONDE_REPLAY", "");
  set("HOROVOD_CACHE_CAPACITY", "0");
  EXPECT_EQ(environment_integer("RONDE_REPLAY", 0, 1).value(), 0);
  set("HOROVOD_CACHE_CAPACITY", "1024");
  EXPECT_EQ(environment_integer("RONDE_REPLAY", 0, 1).value(), std::nullopt);
}

TEST_F(Environment, LogLevelsHaveOurNames) {
  set("RONDE_LOG_LEVEL", "");
  for (const auto& [theirs, ours] : {std::pair("TRACE", "debug"), {"Info", "info"}, {"fatal", "off"}}) {
    set("HOROVOD_LOG_LEVEL", theirs);
    EXPECT_EQ(environment_text("RONDE_LOG_LEVEL"), ours);
  }
}

TEST_F(Environment, TheStartsLimitWinsOverTheLibrarys) {
  set("RONDE_INIT_TIMEOUT_S", "");
  set("HOROVOD_GLOO_TIMEOUT_SECONDS", "30");
  EXPECT_EQ(environment_number("RONDE_INIT_TIMEOUT_S", 0).value(), 30.0);
  set("HOROVOD_START_TIMEOUT", "7");
  EXPECT_EQ(environment_number("RONDE_INIT_TIMEOUT_S", 0).value(), 7.0);
}

}  // namespace
}  // namespace ronde
