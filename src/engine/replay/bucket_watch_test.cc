#include "engine/replay/bucket_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

using testing::ElementsAre;

TEST(BucketWatch, LooksSeldomAndOftenWhileSomebodyWaits) {
  BucketWatch watch;
  EXPECT_EQ(watch.next(), kNever) << "nothing is under way";
  EXPECT_TRUE(watch.begin());
  EXPECT_FALSE(watch.begin());
  Nanoseconds now = kSecond;
  ASSERT_TRUE(watch.is_due(now));
  EXPECT_FALSE(watch.is_due(now + 1));
  const Nanoseconds seldom = watch.next() - now;
  watch.look_often(now);
  EXPECT_LT(watch.next() - now, seldom / 10);
  now = watch.next();
  EXPECT_TRUE(watch.is_due(now));
  EXPECT_EQ(watch.next() - now, seldom);
}

TEST(BucketWatch, ALookThatAWaiterAsksForComesSoonAndNotTooSoon) {
  BucketWatch watch;
  watch.begin();
  const Nanoseconds now = kSecond;
  ASSERT_TRUE(watch.is_due(now));
  const Nanoseconds usual = watch.next();
  EXPECT_TRUE(watch.look_soon());
  EXPECT_FALSE(watch.look_soon());
  EXPECT_FALSE(watch.is_due(now + 1));
  const Nanoseconds soon = watch.next();
  EXPECT_LT(soon, usual);
  EXPECT_TRUE(watch.is_due(soon));
  EXPECT_TRUE(watch.look_soon()) << "the last one was answered";
}

TEST(BucketWatch, AnEpochBeginsWithALook) {
  BucketWatch watch;
  watch.begin();
  ASSERT_TRUE(watch.is_due(kSecond));
  watch.look_at_once();
  EXPECT_TRUE(watch.is_due(kSecond + 1));
  watch.end_look(false);
  EXPECT_EQ(watch.next(), kNever);
}

TEST(BucketWatch, KeepsTheBucketsThatAreWatched) {
  BucketWatch watch;
  for (const std::uint32_t bucket : {4u, 2u, 7u}) {
    watch.add(bucket);
  }
  watch.remove(2);
  EXPECT_THAT(watch.buckets(), ElementsAre(4, 7));
  watch.remove_if([](std::uint32_t bucket) { return bucket == 4; });
  EXPECT_THAT(watch.buckets(), ElementsAre(7));
}

}  // namespace
}  // namespace ronde::engine
