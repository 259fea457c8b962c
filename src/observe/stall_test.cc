#include "observe/stall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::observe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Waiting waiting(const std::string& name, Nanoseconds since) {
  return {name, "allreduce (sum) of float32 [2]", {0, 2}, {1}, since};
}

TEST(StallReport, SpeaksAfterAPeriodAndAgainAfterEachPeriod) {
  StallReport stall(60 * kSecond);
  const std::vector<Waiting> one = {waiting("x", kSecond)};
  EXPECT_TRUE(stall.report(one, 60 * kSecond).empty());
  EXPECT_EQ(stall.next(), 61 * kSecond);
  EXPECT_FALSE(stall.is_due(61 * kSecond - 1));
  ASSERT_TRUE(stall.is_due(61 * kSecond));
  EXPECT_THAT(stall.report(one, 61 * kSecond),
              ElementsAre("stalled for 60 s: allreduce (sum) of float32 [2] named 'x' waits for rank 1; ranks 0, 2 "
                          "have submitted it"));
  EXPECT_FALSE(stall.is_due(121 * kSecond - 1));
  EXPECT_EQ(stall.report(one, 121 * kSecond).size(), 1u);
}

TEST(StallReport, NamesOnlyWhatHasWaitedAPeriod) {
  StallReport stall(60 * kSecond);
  const auto lines = stall.report({waiting("old", 0), waiting("young", 59 * kSecond)}, 60 * kSecond);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("'old'"));
  EXPECT_EQ(stall.next(), 119 * kSecond);
}

TEST(StallReport, ManyAreCounted) {
  StallReport stall(kSecond);
  std::vector<Waiting> many;
  for (std::size_t i = 0; i < StallReport::kMaxLines + 5; ++i) {
    many.push_back(waiting("x" + std::to_string(i), 0));
  }
  const auto lines = stall.report(many, 2 * kSecond);
  ASSERT_EQ(lines.size(), StallReport::kMaxLines + 1);
  EXPECT_EQ(lines.back(), "and 5 more tensors wait as long");
}

TEST(StallReport, NeverMeansNever) {
  StallReport stall(kNever);
  EXPECT_TRUE(stall.report({waiting("x", 0)}, 1000 * kSecond).empty());
  EXPECT_FALSE(stall.is_due(2000 * kSecond));
}

TEST(StallReport, WhatBeginsToWaitAfterAQuietTimeIsReported) {
  StallReport stall(60 * kSecond);
  EXPECT_TRUE(stall.report({}, 500 * kSecond).empty());
  ASSERT_TRUE(stall.is_due(560 * kSecond));
  EXPECT_EQ(stall.report({waiting("x", 500 * kSecond)}, 560 * kSecond).size(), 1u);
}

}  // namespace
}  // namespace ronde::observe
