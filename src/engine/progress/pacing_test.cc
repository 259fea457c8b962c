#include "engine/progress/pacing.h"

#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

TEST(Pacing, LooksLessOftenTheMoreRanksShareACore) {
  const Nanoseconds one = Pacing::of(2, 2).attention;
  EXPECT_EQ(Pacing::of(1, 64).attention, one);
  EXPECT_EQ(Pacing::of(8, 8).attention, one);
  EXPECT_EQ(Pacing::of(3, 0.5).attention, 3 * one) << "a part of a core counts as one";
  EXPECT_EQ(Pacing::of(32, 2).attention, 16 * one);
  EXPECT_EQ(Pacing::of(64, 2).attention, 32 * one) << "so all threads of a core together look equally often";
}

TEST(Pacing, YieldsLongerTheMoreRanksShareACore) {
  const Nanoseconds yields = Pacing::of(2, 2).yield_for;
  EXPECT_EQ(Pacing::of(8, 2).yield_for, yields);
  EXPECT_EQ(Pacing::of(64, 2).yield_for, 8 * yields);
  EXPECT_EQ(Pacing::of(256, 1).yield_for, 8 * yields);
}

TEST(Pacing, PollsOnlyOnACoreOfItsOwn) {
  EXPECT_GT(Pacing::of(2, 2).spin_for, 0);
  EXPECT_EQ(Pacing::of(3, 2).spin_for, 0);
  EXPECT_EQ(Pacing::of(2, 1.5).spin_for, 0);
}

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
