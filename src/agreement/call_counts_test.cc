#include "agreement/call_counts.h"

#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

std::uint64_t number(std::uint64_t barriers, std::uint64_t calls) { return barriers << CallCounts::kCallBits | calls; }

TEST(CallCountsTest, WhoHasCalledABarrierMakesNoMoreOfTheCallsBeforeIt) {
  CallCounts counts(2);
  EXPECT_EQ(counts.who_does_not_make(number(0, 1)), std::nullopt);
  counts.on_barrier(1, number(0, 3));
  EXPECT_EQ(counts.who_does_not_make(number(0, 3)), std::nullopt);
  EXPECT_EQ(counts.who_does_not_make(number(0, 4)), 1);
  EXPECT_TRUE(counts.does_not_make(1, number(0, 4)));
  EXPECT_FALSE(counts.does_not_make(0, number(0, 4))) << "it has called no barrier yet";
  EXPECT_EQ(counts.made(1, number(0, 4)), 3u);
  EXPECT_EQ(counts.who_does_not_make(number(1, 1)), std::nullopt);
  counts.on_barrier(0, number(1, 0));
  EXPECT_EQ(counts.who_does_not_make(number(1, 1)), 0);
}

TEST(CallCountsTest, WhatIsKeptIsBounded) {
  CallCounts counts(1);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    counts.on_barrier(0, number(i, 0));
  }
  EXPECT_EQ(counts.who_does_not_make(number(999, 1)), 0);
  EXPECT_EQ(counts.who_does_not_make(number(1, 1)), std::nullopt);
}

}  // namespace
}  // namespace ronde::agreement
