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

}  // namespace
}  // namespace ronde::engine
