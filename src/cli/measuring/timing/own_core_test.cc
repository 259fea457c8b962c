#include "cli/measuring/timing/own_core.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace ronde::cli {
namespace {

TEST(OwnCore, OfEnoughCoresEachRankGetsOne) {
  const int cores = usable_cores();
  ASSERT_GE(cores, 1);
  for (int rank = 0; rank < cores; ++rank) {
    std::thread([&] {  // the affinity is the thread's
      stay_on_own_core(rank, cores);
      EXPECT_EQ(usable_cores(), 1);
    })
        .join();
  }
}

TEST(OwnCore, OfTooFewNobodyIsKeptOnOne) {
  const int cores = usable_cores();
  std::thread([&] {
    stay_on_own_core(0, cores + 1);
    EXPECT_EQ(usable_cores(), cores);
  }).join();
}

}  // namespace
}  // namespace ronde::cli
