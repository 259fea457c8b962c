#include "base/clock.h"

#include <gtest/gtest.h>

namespace ronde {
namespace {

TEST(Clock, APollTimeoutIsRoundedUpAndBounded) {
  EXPECT_EQ(poll_timeout(kNever, 5), -1);
  EXPECT_EQ(poll_timeout(5, 5), 0);
  EXPECT_EQ(poll_timeout(4, 5), 0);
  EXPECT_EQ(poll_timeout(6, 5), 1) << "a wait that ends early would spin";
  EXPECT_EQ(poll_timeout(5 + 3 * kMillisecond, 5), 3);
  EXPECT_EQ(poll_timeout(kNever - 1, 5), 3600 * 1000);
}

TEST(Clock, LaterSaturates) {
  EXPECT_EQ(later(5, 7), 12);
  EXPECT_EQ(later(5, kNever), kNever);
  EXPECT_EQ(later(kNever, 5), kNever);
  EXPECT_EQ(from_seconds(1.5), 1500 * kMillisecond);
  EXPECT_EQ(from_seconds(1e12), kNever);
}

}  // namespace
}  // namespace ronde
