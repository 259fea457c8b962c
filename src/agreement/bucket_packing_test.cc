#include "agreement/bucket_packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "agreement/testing/layout.h"

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class BucketPackingTest : public testing::Test {
 protected:
  static Descriptor tensor(std::int64_t elements, DType dtype = DType::float32) {
    Descriptor descriptor;
    descriptor.tensors = {{dtype, {elements}}};
    return descriptor;
  }
  /// Answered after those before it; in both of its rounds pending at the same time as all others.
  NameHistory& add(const std::string& name, const Descriptor& descriptor,
                   const NameHistory::Rounds& rounds = {Round{10, 20}, Round{0, 10}}) {
    names_.push_back(name);
    NameHistory& history = histories_.emplace_back();
    history.name = &names_.back();
    history.order = histories_.size();
    history.descriptor = descriptor;
    history.rounds = rounds;
    return history;
  }
  /// Of all that were added; they are handed in the last first.
  std::vector<std::vector<std::string>> packed(bool are_together = false) {
    return packed_by(BucketPacking({1000, 400, {}}, &rooms_), are_together);
  }
  std::vector<std::vector<std::string>> packed_by(const BucketPacking& packing, bool are_together = false) {
    std::vector<NameHistory*> all;
    for (NameHistory& history : histories_) {
      all.insert(all.begin(), &history);
    }
    std::vector<std::vector<std::string>> buckets;
    for (const std::vector<NameHistory*>& bucket : packing.pack(all, are_together)) {
      buckets.emplace_back();
      for (const NameHistory* history : bucket) {
        buckets.back().push_back(*history->name);
      }
    }
    return buckets;
  }

  const RoomsForTests rooms_;
  std::deque<std::string> names_;
  std::deque<NameHistory> histories_;
};

TEST_F(BucketPackingTest, NothingMakesNoBucket) { EXPECT_THAT(packed(), IsEmpty()); }

TEST_F(BucketPackingTest, OneNameMakesOneBucket) {
  add("a", tensor(0));
  EXPECT_THAT(packed(), ElementsAre(ElementsAre("a")));
}

TEST_F(BucketPackingTest, SmallNamesShareABucketInTheOrderOfTheirAnswers) {
  add("a", tensor(1));
  add("b", tensor(1));
  add("c", tensor(0));
  EXPECT_THAT(packed(), ElementsAre(ElementsAre("a", "b", "c")));
}

TEST_F(BucketPackingTest, SmallIsUpToTheSmallLimitAndNotDemoted) {
  const BucketPacking packing({1000, 400, {}}, nullptr);
  EXPECT_TRUE(packing.is_small(add("a", tensor(0))));
  EXPECT_TRUE(packing.is_small(add("b", tensor(100))));
  EXPECT_FALSE(packing.is_small(add("c", tensor(101))));
  EXPECT_FALSE(BucketPacking({0, 400, {}}, nullptr).is_small(add("d", tensor(0)))) << "nothing is fused";
  add("e", tensor(1)).alone = true;
  EXPECT_FALSE(packing.is_small(histories_.back()));
  EXPECT_THAT(packed(), ElementsAre(ElementsAre("c"), ElementsAre("e"), ElementsAre("a", "b", "d")));
}

TEST_F(BucketPackingTest, ABucketIsFullAtTheThresholdAndALaterNameMayStillFill) {
  add("a", tensor(100));
  add("b", tensor(100));
  add("c", tensor(51));  // 1004 bytes would be in it
  add("d", tensor(50));
  add("e", tensor(1));
  EXPECT_THAT(packed(), ElementsAre(ElementsAre("a", "b", "d"), ElementsAre("c", "e")));
}

TEST_F(BucketPackingTest, WhatIsAskedForAfterAnAnswerIsNotTogetherWithIt) {
  add("a", tensor(1), {Round{10, 20}, Round{0, 8}});
  add("b", tensor(1), {Round{19, 21}, Round{7, 9}});
  add("c", tensor(1), {Round{20, 22}, Round{7, 9}});
  EXPECT_THAT(packed(), ElementsAre(ElementsAre("a", "b"), ElementsAre("c")));
}

TEST_F(BucketPackingTest, EachOfTheLastRoundsMustBeTogether) {
  add("a", tensor(1), {Round{10, 20}, Round{0, 1}});
  add("b", tensor(1), {Round{10, 21}, Round{1, 2}});
  EXPECT_THAT(packed(), ElementsAre(ElementsAre("a"), ElementsAre("b")));
}

// The first overlaps each of the others, which do not overlap each other.
TEST_F(BucketPackingTest, AllOfABucketWereTogetherAtOneTime) {
  add("a", tensor(1), {Round{10, 20}, Round{0, 10}});
  add("b", tensor(1), {Round{11, 14}, Round{1, 4}});
  add("c", tensor(1), {Round{15, 19}, Round{5, 9}});
  EXPECT_THAT(packed(), ElementsAre(ElementsAre("a", "b"), ElementsAre("c")));
}

TEST_F(BucketPackingTest, WhatBelongsTogetherMayHaveComeAtAnyTime) {
  add("a", tensor(100), {Round{0, 1}, Round{}});
  add("b", tensor(100), {Round{5, 6}, Round{}});
  add("c", tensor(100), {Round{9, 10}, Round{}});
  EXPECT_THAT(packed(true), ElementsAre(ElementsAre("a", "b"), ElementsAre("c"))) << "the threshold holds";
}

TEST_F(BucketPackingTest, OnlyWhatIsReducedAlikeSharesABucket) {
  add("sum", tensor(1));
  add("bf16", tensor(1, DType::bfloat16));
  add("max", tensor(1)).descriptor.reduce_op = ReduceOp::max;
  add("scaled", tensor(1)).descriptor.prescale = 0.5;
  add("scaled after", tensor(1)).descriptor.postscale = 0.5;
  add("reachable", tensor(1)).places = {MemoryPlace(0)};
  EXPECT_THAT(packed(), testing::Each(testing::SizeIs(1)));
  add("sum too", tensor(1));
  EXPECT_THAT(packed(), testing::Contains(ElementsAre("sum", "sum too")));
}

TEST_F(BucketPackingTest, WithoutALayoutAllTensorsAreOfOneClass) {
  add("a", tensor(1));
  add("b", tensor(1)).places = {MemoryPlace(0)};
  EXPECT_THAT(packed_by(BucketPacking({1000, 400, {}}, nullptr)), ElementsAre(ElementsAre("a", "b")));
}

TEST_F(BucketPackingTest, OnlyReductionsOfTensorsOfOneTypeArePlannable) {
  EXPECT_TRUE(is_plannable(tensor(0)));
  Descriptor list = tensor(1);
  list.tensors.push_back({DType::float32, {3}});
  EXPECT_TRUE(is_plannable(list));
  list.tensors.push_back({DType::float64, {3}});
  EXPECT_FALSE(is_plannable(list));
  EXPECT_FALSE(is_plannable({})) << "of no tensor";
  Descriptor adasum = tensor(1);
  adasum.reduce_op = ReduceOp::adasum;
  EXPECT_FALSE(is_plannable(adasum));
  Descriptor gather = tensor(1);
  gather.kind = OpKind::allgather;
  EXPECT_FALSE(is_plannable(gather));
}

}  // namespace
}  // namespace ronde::agreement
