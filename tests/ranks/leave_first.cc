// A rank that exits in order without shutdown, while others still need it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ronde/ronde.hpp>

#include "support/rank_test.h"

namespace ronde::test {
namespace {

TEST(LeaveFirst, TheOthersPendingCallsSayWhoHasLeft) {
  ronde::init();
  std::vector<float> values(10, 1);
  ronde::allreduce(values, {.name = "together"});
  const int leaver = size() - 1;
  if (test::rank() == leaver) {
    std::exit(0);
  }
  try {
    ronde::allreduce(values, {.name = "x"});
    FAIL() << "rank " << leaver << " has left";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::peer_left);
    EXPECT_EQ(error.failed_rank(), leaver);
    EXPECT_THAT(error.what(), testing::HasSubstr("rank " + std::to_string(leaver) + " has left"));
  }
  ronde::shutdown();
}

TEST(LeaveFirst, TheCoordinatorLeavesFirst) {
  if (test::rank() == size() - 1) {
    return;
  }
  // The last rank has exited: a job of the others alone cannot be formed any more, and init says who is missing.
  try {
    ronde::init({.init_timeout_s = 0.3});
    FAIL() << "one rank is missing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timed_out);
    EXPECT_THAT(error.what(), testing::HasSubstr("missing: rank " + std::to_string(size() - 1)));
  }
}

}  // namespace
}  // namespace ronde::test
