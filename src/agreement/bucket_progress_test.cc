#include "agreement/bucket_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class BucketProgressTest : public testing::Test {
 protected:
  BucketProgressTest() {
    for (std::uint32_t id : {0u, 1u, 2u}) {
      Bucket bucket;
      bucket.id = id;
      progress_.prepare(bucket)->names = {2 * id, 2 * id + 1};
    }
    progress_.begin_epoch(1);
    progress_.put_in_force({2, 0, 1});
  }
  void publish(std::uint32_t id) {
    EXPECT_FALSE(progress_[id].take_place());
    EXPECT_TRUE(progress_[id].take_place());
  }
  void complete(std::uint32_t id) {
    publish(id);
    progress_[id].end_instance();
  }

  BucketProgress progress_;
};

TEST_F(BucketProgressTest, ABucketIsPreparedOnceAndEpochsFollowOneAnother) {
  Bucket bucket;
  bucket.id = 1;
  EXPECT_EQ(progress_.prepare(bucket), nullptr);
  bucket.id = 5;
  EXPECT_NE(progress_.prepare(bucket), nullptr);
  EXPECT_EQ(progress_.size(), 6u) << "those in between stay empty";
  EXPECT_FALSE(progress_.begin_epoch(1));
  EXPECT_TRUE(progress_.begin_epoch(3));
  EXPECT_EQ(progress_.epoch(), 3u);
}

TEST_F(BucketProgressTest, ASliceBeginsOnceAllIsPublishedAndEndsOnce) {
  BucketState& bucket = progress_[0];
  EXPECT_FALSE(progress_.begin_slice(bucket));
  publish(0);
  EXPECT_FALSE(progress_.end_slice(bucket));
  EXPECT_TRUE(progress_.begin_slice(bucket));
  EXPECT_TRUE(progress_.has_slices());
  EXPECT_FALSE(progress_.begin_slice(bucket));
  EXPECT_TRUE(progress_.end_slice(bucket));
  EXPECT_FALSE(progress_.has_slices());
  EXPECT_FALSE(progress_.end_slice(bucket));
  EXPECT_EQ(bucket.stage, Stage::reduced);
}

TEST_F(BucketProgressTest, TheFlagChangesWithEachInstance) {
  const Flag first = progress_.next_flag(progress_[0]);
  EXPECT_EQ(first, make_flag(1, 1));
  publish(0);
  EXPECT_EQ(progress_.next_flag(progress_[0]), first);
  progress_[0].end_instance();
  EXPECT_EQ(progress_.next_flag(progress_[0]), make_flag(1, 2));
}

TEST_F(BucketProgressTest, ABreakEndsWithTheLastInstanceThatWasDecided) {
  complete(0);
  publish(0);
  publish(1);
  publish(2);
  ASSERT_TRUE(progress_.decide(std::vector<std::uint64_t>{2, 1, 0}));
  EXPECT_TRUE(progress_.is_decided(progress_[0]));
  EXPECT_FALSE(progress_.is_decided(progress_[2])) << "published here and not by all";
  progress_[1].end_instance();
  EXPECT_FALSE(progress_.count_drained(progress_[1]));
  EXPECT_FALSE(progress_.is_drained());
  progress_[0].end_instance();
  EXPECT_TRUE(progress_.count_drained(progress_[0]));
  EXPECT_TRUE(progress_.is_drained());
}

TEST_F(BucketProgressTest, WithoutAnInstanceUnderWayABreakIsDrainedAtOnce) {
  complete(1);
  ASSERT_TRUE(progress_.decide(std::vector<std::uint64_t>{0, 1}));
  EXPECT_TRUE(progress_.is_drained());
}

TEST_F(BucketProgressTest, ADecisionSpeaksOfWhatThisRankHasPublished) {
  EXPECT_FALSE(progress_.decide(std::vector<std::uint64_t>{1, 0, 0})) << "of more";
  complete(0);
  EXPECT_FALSE(progress_.decide(std::vector<std::uint64_t>{0, 0, 0})) << "of less";
}

TEST_F(BucketProgressTest, AtTheEndOfAnEpochNothingIsInAPlace) {
  complete(1);
  publish(1);
  EXPECT_EQ(progress_.most_instances(), 1u);
  EXPECT_THAT(progress_.unused(), ElementsAre(0, 2));
  progress_.end_epoch();
  EXPECT_THAT(progress_.in_force(), IsEmpty());
  EXPECT_FALSE(progress_[1].published);
  EXPECT_FALSE(progress_[1].in_force);
  progress_.begin_epoch(2);
  progress_.put_in_force({1});
  EXPECT_EQ(progress_[1].instances, 0u);
  publish(1);
}

}  // namespace
}  // namespace ronde::agreement
