#include "engine/progress/attention.h"

#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

TEST(Attention, LastsAsLongAsBucketsAreReplayedAndALittleLonger) {
  Attention attention;
  EXPECT_FALSE(attention.look(kSecond, 0));
  EXPECT_FALSE(attention.is_on());
  EXPECT_TRUE(attention.look(2 * kSecond, 1));
  EXPECT_TRUE(attention.is_on());
  const Nanoseconds last = 2 * kSecond + 5 * kMillisecond;
  EXPECT_TRUE(attention.look(last, 2));
  EXPECT_TRUE(attention.look(last + Attention::kAttentionSpan - 1, 2));
  EXPECT_FALSE(attention.look(last + Attention::kAttentionSpan, 2));
  EXPECT_FALSE(attention.is_on());
  EXPECT_TRUE(attention.look(last + kSecond, 3)) << "replayed again";
}

}  // namespace
}  // namespace ronde::engine
