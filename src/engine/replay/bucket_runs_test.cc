#include "engine/replay/bucket_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing/recording_backend.h"

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class BucketRunsTest : public testing::Test {
 protected:
  void add(std::uint32_t id) {
    const Bucket bucket = bucket_of(1, id);
    runs_.add(id, std::make_unique<BucketRun>(std::make_unique<RecordingCollective>(bucket, recording_), bucket));
  }
  void enter(std::vector<std::uint32_t> buckets, std::uint32_t epoch = 1) { runs_.enter(epoch, buckets); }
  Recording took_place() { return std::exchange(recording_, {}); }

  Recording recording_;
  BucketRuns runs_;
};

TEST_F(BucketRunsTest, WithoutBucketsNothingIsReplayed) {
  EXPECT_FALSE(runs_.replays());
  EXPECT_FALSE(runs_.has_published());
  runs_.collect_published();
  runs_.leave();
  runs_.stop();
  EXPECT_THAT(runs_.active(), IsEmpty());
  EXPECT_THAT(runs_.all(), IsEmpty());
}

TEST_F(BucketRunsTest, ABucketIsFoundByItsNumber) {
  add(2);
  ASSERT_EQ(runs_.all().size(), 3u);
  EXPECT_EQ(runs_.all()[0], nullptr);
  EXPECT_EQ(runs_.all()[1], nullptr);
  EXPECT_EQ(runs_[2].collective().description().id, 2u);
  add(0);
  EXPECT_EQ(runs_[0].collective().description().id, 0u);
  EXPECT_EQ(runs_[2].collective().description().id, 2u);
}

TEST_F(BucketRunsTest, WhatWasRefusedNeedNotBeRemoved) {
  runs_.add(0, nullptr);
  add(1);
  EXPECT_FALSE(runs_.remove(0));
  EXPECT_TRUE(runs_.remove(1));
  EXPECT_EQ(runs_.all()[1], nullptr);
  EXPECT_FALSE(runs_.remove(1));
}

TEST_F(BucketRunsTest, OnlyWhatIsInForceLeavesAnEpoch) {
  add(0);
  add(1);
  add(2);
  runs_.remove(2);
  enter({1}, 7);
  EXPECT_THAT(took_place(), ElementsAre("1: enter 7"));
  EXPECT_TRUE(runs_.replays());
  EXPECT_FALSE(runs_[0].is_in_force());
  enter({0}, 7);
  EXPECT_THAT(took_place(), ElementsAre("0: enter 7"));
  EXPECT_TRUE(runs_[1].is_in_force());
  runs_.leave();
  EXPECT_THAT(took_place(), ElementsAre("0: cancel", "1: cancel"));
  EXPECT_FALSE(runs_.replays());
  runs_.leave();
  EXPECT_THAT(took_place(), IsEmpty());
}

TEST_F(BucketRunsTest, WhatIsPublishedIsActiveInTheOrderOfItsNumberOnceCollected) {
  for (std::uint32_t id = 0; id < 4; ++id) {
    add(id);
  }
  enter({0, 1, 2, 3});
  runs_.published(2);
  EXPECT_TRUE(runs_.has_published());
  EXPECT_THAT(runs_.active(), IsEmpty());
  runs_.collect_published();
  EXPECT_FALSE(runs_.has_published());
  EXPECT_THAT(runs_.active(), ElementsAre(2));
  runs_.published(3);
  runs_.published(0);
  runs_.collect_published();
  runs_.collect_published();
  EXPECT_THAT(runs_.active(), ElementsAre(0, 2, 3));
}

TEST_F(BucketRunsTest, NothingIsUnderWayAfterAnEpoch) {
  add(0);
  add(1);
  enter({0, 1});
  runs_.published(0);
  runs_.collect_published();
  runs_.published(1);
  runs_.leave();
  EXPECT_THAT(runs_.active(), IsEmpty());
  runs_.collect_published();
  EXPECT_THAT(runs_.active(), IsEmpty());
}

TEST_F(BucketRunsTest, NothingIsUnderWayOnceItIsStopped) {
  add(0);
  add(1);
  enter({0, 1});
  runs_.published(0);
  runs_.collect_published();
  runs_.published(1);
  took_place();
  runs_.stop();
  EXPECT_FALSE(runs_.replays());
  EXPECT_FALSE(runs_.has_published());
  EXPECT_THAT(runs_.active(), IsEmpty());
  EXPECT_THAT(took_place(), IsEmpty()) << "peers may still be at work: nothing is cancelled";
  EXPECT_TRUE(runs_[0].is_in_force());
}

}  // namespace
}  // namespace ronde::engine
