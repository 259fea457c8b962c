#include "engine/progress/hand_over_watch.h"

#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

using Verdict = HandOverWatch::Verdict;

TEST(HandOverWatch, TwoLooksInARowMustSayThatItHasChanged) {
  HandOverWatch watch(100.0);
  EXPECT_EQ(watch.look(159.0), Verdict::unchanged);
  EXPECT_EQ(watch.look(63.0), Verdict::unchanged);
  EXPECT_EQ(watch.look(161.0), Verdict::unclear);
  EXPECT_TRUE(watch.suspects());
  EXPECT_EQ(watch.look(110.0), Verdict::unchanged) << "something else ran";
  EXPECT_FALSE(watch.suspects());
  EXPECT_EQ(watch.look(62.0), Verdict::unclear);
  EXPECT_EQ(watch.look(200.0), Verdict::changed);
}

TEST(HandOverWatch, BusyCoresSayNothing) {
  HandOverWatch watch(100.0);
  EXPECT_EQ(watch.look({}), Verdict::unclear);
  EXPECT_FALSE(watch.suspects());
  EXPECT_EQ(watch.look(300.0), Verdict::unclear);
  EXPECT_EQ(watch.look({}), Verdict::unclear);
  EXPECT_EQ(watch.look(300.0), Verdict::changed);
}

TEST(HandOverWatch, LooksAreComparedWithTheLastMeasurement) {
  HandOverWatch watch({});
  EXPECT_FALSE(watch.is_measured());
  watch.settle(100.0);
  ASSERT_TRUE(watch.is_measured());
  watch.look(300.0);
  EXPECT_EQ(watch.look(300.0), Verdict::changed);
  EXPECT_EQ(watch.look(300.0), Verdict::changed) << "until it is settled";
  watch.settle(300.0);
  EXPECT_FALSE(watch.suspects());
  EXPECT_EQ(watch.look(300.0), Verdict::unchanged);
}

}  // namespace
}  // namespace ronde::engine
