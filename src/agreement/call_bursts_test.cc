#include "agreement/call_bursts.h"

#include <gtest/gtest.h>

#include <vector>

namespace ronde::agreement {
namespace {

/// Bursts of these lengths; the indices of their calls.
std::vector<std::uint32_t> indices(CallBursts& bursts, const std::vector<int>& lengths, std::uint64_t bytes = 4) {
  static std::uint64_t position = 0;
  std::vector<std::uint32_t> found;
  for (int length : lengths) {
    const std::uint64_t asked = ++position;
    for (int i = 0; i < length; ++i) {
      found.push_back(bursts.on_answer("h", bytes, asked, ++position));
    }
  }
  return found;
}

TEST(CallBurstsTest, CallsThatArePendingTogetherAreCounted) {
  CallBursts bursts;
  EXPECT_EQ(indices(bursts, {1, 3, 2}), (std::vector<std::uint32_t>{0, 0, 1, 2, 0, 1}));
  EXPECT_EQ(bursts.length("h"), 0u);
  EXPECT_FALSE(bursts.is_between("h"));
}

TEST(CallBurstsTest, TwoOfALengthTellIt) {
  CallBursts bursts;
  indices(bursts, {3, 3});
  EXPECT_EQ(bursts.length("h"), 0u);  // the second may go on
  indices(bursts, {1});
  EXPECT_EQ(bursts.length("h"), 3u);
  EXPECT_FALSE(bursts.is_between("h"));
  indices(bursts, {3});
  EXPECT_TRUE(bursts.is_between("h"));
  indices(bursts, {5, 5, 5});
  EXPECT_EQ(bursts.length("h"), 5u);
  EXPECT_TRUE(bursts.is_between("h"));
}

TEST(CallBurstsTest, WhatNeverSettlesGetsThePlacesOfTheLongest) {
  CallBursts bursts;
  indices(bursts, {1, 2, 3, 1, 2, 3, 1, 2, 1});
  EXPECT_EQ(bursts.length("h"), 3u);
  EXPECT_TRUE(bursts.is_uneven("h"));
  EXPECT_TRUE(bursts.is_between("h"));
}

TEST(CallBurstsTest, ALengthThatIsForgottenIsLearntAnew) {
  CallBursts bursts;
  indices(bursts, {1, 1, 1});
  EXPECT_EQ(bursts.forget_length("h"), 1u);
  EXPECT_EQ(bursts.length("h"), 0u);
  indices(bursts, {3, 3, 3});
  EXPECT_EQ(bursts.length("h"), 3u);
  EXPECT_EQ(bursts.forget_length("other"), 0u);
}

TEST(CallBurstsTest, ABurstWithoutAnEndIsCut) {
  CallBursts bursts;
  const auto found = indices(bursts, {100}, 4 << 20);
  EXPECT_EQ(found[15], 15u);
  EXPECT_EQ(found[16], 0u);
  EXPECT_EQ(bursts.length("h"), 16u);
}

}  // namespace
}  // namespace ronde::agreement
