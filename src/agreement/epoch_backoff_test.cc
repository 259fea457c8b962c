#include "agreement/epoch_backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace ronde::agreement {
namespace {

TEST(EpochBackoff, DoublesUpToALimit) {
  EpochBackoff backoff;
  EXPECT_EQ(backoff.wait(), 0u) << "the first epoch begins at once";
  std::vector<std::uint32_t> waits;
  for (int i = 0; i < 9; ++i) {
    backoff.on_end(999);
    backoff.on_over(false);
    waits.push_back(backoff.wait());
  }
  EXPECT_EQ(waits, (std::vector<std::uint32_t>{1, 2, 4, 8, 16, 32, 64, 64, 64}));
}

TEST(EpochBackoff, BeginsAgainAfterAnEpochThatLasted) {
  EpochBackoff backoff;
  for (int i = 0; i < 4; ++i) {
    backoff.on_over(false);
  }
  ASSERT_EQ(backoff.wait(), 8u);
  backoff.on_end(1000);
  backoff.on_end(3);
  EXPECT_TRUE(backoff.is_healthy());
  backoff.on_over(false);
  EXPECT_EQ(backoff.wait(), 1u);
  EXPECT_FALSE(backoff.is_healthy()) << "the next has to show it anew";
  backoff.on_over(false);
  EXPECT_EQ(backoff.wait(), 2u);
}

TEST(EpochBackoff, StaysWhenAnEpochWasEndedOnPurpose) {
  EpochBackoff backoff;
  backoff.on_over(false);
  backoff.on_over(false);
  ASSERT_EQ(backoff.wait(), 2u);
  backoff.on_over(true);
  EXPECT_EQ(backoff.wait(), 2u);
}

}  // namespace
}  // namespace ronde::agreement
