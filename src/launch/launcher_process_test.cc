#include "launch/launcher_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>

#include "base/unique_fd.h"
#include "store/tcp_address.h"

namespace ronde::launch {
namespace {

rlimit open_files() {
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit;
}

TEST(ManyOpenFiles, RaisesTheSoftLimitWhileItLives) {
  const rlimit before = open_files();
  const rlimit lower{std::min<rlim_t>(before.rlim_cur, 256), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  {
    const ManyOpenFiles many;
    EXPECT_EQ(open_files().rlim_cur, before.rlim_max);
    EXPECT_EQ(many.before().rlim_cur, lower.rlim_cur);
  }
  EXPECT_EQ(open_files().rlim_cur, lower.rlim_cur);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(LauncherProcess, AFreePortCanBeListenedAt) {
  const int port = free_port();
  EXPECT_GT(port, 0);
  EXPECT_TRUE(store::listen_tcp({"127.0.0.1", static_cast<std::uint16_t>(port)}));
}

TEST(LauncherProcess, ItsEnvironmentHasEachVariable) {
  ::setenv("RONDE_TEST_OF_ENVIRONMENT", "a=b", 1);
  EXPECT_THAT(own_environment(), testing::Contains("RONDE_TEST_OF_ENVIRONMENT=a=b"));
  ::unsetenv("RONDE_TEST_OF_ENVIRONMENT");
}

}  // namespace
}  // namespace ronde::launch
