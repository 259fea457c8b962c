#include "plan/forecast.h"

#include <gtest/gtest.h>

namespace ronde::plan {
namespace {

Fabric fabric_of(double latency_us, double link_gbit, double cpu_ns_per_byte) {
  Fabric fabric;
  fabric.latency_us = latency_us;
  fabric.link_gbit = link_gbit;
  fabric.cpu_ns_per_byte = cpu_ns_per_byte;
  return fabric;
}

/// 10 ms, of which the last bucket of 1 MiB is ready at the end.
Step step() { return {.name = "", .compute_ns = 10e6, .buckets = {{"", 1 << 20, 1, 5e6}, {"", 1 << 20, 1, 10e6}}}; }

TEST(Forecast, OneRankWaitsForNothing) {
  const Forecast alone = forecast(step(), {1, 1}, fabric_of(10, 8, 0));
  EXPECT_DOUBLE_EQ(alone.step_ns, 10e6);
  EXPECT_DOUBLE_EQ(alone.efficiency, 1);
  EXPECT_EQ(alone.bound, Bound::compute);
}

TEST(Forecast, WhatIsHiddenBehindComputingCostsNothing) {
  Step early = step();
  early.buckets.pop_back();
  EXPECT_DOUBLE_EQ(step_ns(early, {2, 1}, fabric_of(10, 8, 0)), 10e6);
}

TEST(Forecast, TheLastBucketIsWaitedFor) {
  const Forecast two = forecast(step(), {2, 1}, fabric_of(0, 8, 0));
  // The first bucket has 5 ms and needs one; of the last each rank sends half twice, at a byte a nanosecond.
  EXPECT_NEAR(two.step_ns, 10e6 + (1 << 20), 0.3 * (1 << 20));
  EXPECT_NEAR(two.efficiency, 10e6 / two.step_ns, 1e-12);
  EXPECT_EQ(two.bound, Bound::bandwidth);
}

TEST(Forecast, TheBoundIsWhatCostsMost) {
  EXPECT_EQ(forecast(step(), {2, 1}, fabric_of(1000, 800, 0.01)).bound, Bound::messages);
  EXPECT_EQ(forecast(step(), {2, 1}, fabric_of(1, 8, 0.01)).bound, Bound::bandwidth);
  EXPECT_EQ(forecast(step(), {2, 1}, fabric_of(1, 800, 2)).bound, Bound::processor);
}

TEST(Forecast, RanksOfOneHostAddInItsMemory) {
  Fabric memory = fabric_of(10, 8, 0);
  memory.memory_ns_per_byte = 1;
  EXPECT_DOUBLE_EQ(step_ns(step(), {1, 4}, memory), 10e6 + 2.0 * (1 << 20));
}

}  // namespace
}  // namespace ronde::plan
