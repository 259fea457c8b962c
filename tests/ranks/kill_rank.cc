// kill -9 of one rank in the middle of a loop of all-reduces: every other raises an error within a second.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <ronde/ronde.hpp>

#include "support/rank_test.h"

namespace ronde::test {
namespace {

using testing::HasSubstr;

TEST(KillRank, TheOthersSayWhoDiedWithinASecond) {
  ronde::init();
  const int victim = size() - 1;
  const std::string stamp = folder() + "/killed_at";
  std::vector<float> values(300000);
  if (test::rank() == victim) {
    expect_exit(128 + SIGKILL);
  }
  try {
    for (int i = 0;; ++i) {
      ronde::allreduce(values, {.name = "gradient", .op = Op::sum});
      if (test::rank() == victim && i == 50) {
        std::ofstream(stamp) << std::fixed << now_seconds();
        ::kill(::getpid(), SIGKILL);
      }
    }
  } catch (const Error& error) {
    const double seen = now_seconds();
    double killed = 0;
    std::ifstream(stamp) >> killed;
    EXPECT_LT(seen - killed, 1.0);
    EXPECT_EQ(error.code(), Code::peer_lost);
    EXPECT_EQ(error.failed_rank(), victim);
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    EXPECT_THAT(error.what(), HasSubstr("rank " + std::to_string(victim) + " (host " + host));
    EXPECT_THAT(error.what(), HasSubstr("'gradient'"));
  }
  EXPECT_THROW(ronde::allreduce(values, {.name = "later"}), Error);
  const double before = now_seconds();
  ronde::shutdown();
  EXPECT_LT(now_seconds() - before, 2.0) << "nobody waits for the dead";
}

}  // namespace
}  // namespace ronde::test
