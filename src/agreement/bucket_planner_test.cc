#include "agreement/bucket_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agreement/testing/layout.h"

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class BucketPlannerTest : public testing::Test {
 protected:
  static Descriptor tensor(std::int64_t elements, std::int64_t offset = kNoOffset) {
    Descriptor descriptor;
    descriptor.tensors = {{DType::float32, {elements}}};
    descriptor.memory_place = offset;
    return descriptor;
  }
  static MemoryPlaces places(const Descriptor& descriptor) {
    return descriptor.memory_place == kNoOffset
               ? MemoryPlaces{}
               : MemoryPlaces{descriptor.memory_place, descriptor.memory_place.input + 128};
  }
  /// All of these were requested before the answer to any was read, then answered one after the other.
  void round(const std::vector<std::pair<std::string, Descriptor>>& names) {
    const std::uint64_t asked = position_;
    for (const auto& [name, descriptor] : names) {
      planner_.on_exec(name, descriptor, places(descriptor), asked, ++position_);
    }
  }
  void answer(const std::string& name, const Descriptor& descriptor) { round({{name, descriptor}}); }
  std::vector<std::vector<std::string>> proposed(bool quiet = true) {
    std::vector<std::vector<std::string>> all;
    for (const Bucket& bucket : planner_.propose(quiet)) {
      ids_.push_back(bucket.id);
      all.emplace_back();
      for (const BucketMember& member : bucket.members) {
        all.back().push_back(member.name);
      }
    }
    return all;
  }
  /// Two rounds of these names, prepared by all ranks.
  void learn(const std::vector<std::pair<std::string, Descriptor>>& names) {
    round(names);
    round(names);
    proposed();
    for (std::uint32_t id : std::exchange(ids_, {})) {
      planner_.on_prepared(id);
    }
  }

  const RoomsForTests rooms_;
  BucketPlanner planner_{{1000, 400, {56, 500}}, &rooms_};
  std::uint64_t position_ = 0;
  std::vector<std::uint32_t> ids_;
};

TEST_F(BucketPlannerTest, ANameIsPlannedAfterTwoEqualAnswers) {
  answer("x", tensor(1));
  EXPECT_THAT(proposed(), IsEmpty());
  answer("x", tensor(2));
  EXPECT_THAT(proposed(), IsEmpty());
  answer("x", tensor(2));
  EXPECT_THAT(proposed(), ElementsAre(ElementsAre("x")));
  answer("x", tensor(2));
  EXPECT_THAT(proposed(), IsEmpty()) << "once";
}

TEST_F(BucketPlannerTest, AnErrorBeginsAgain) {
  answer("x", tensor(1));
  planner_.on_error("x");
  answer("x", tensor(1));
  EXPECT_THAT(proposed(), IsEmpty());
  answer("x", tensor(1));
  EXPECT_THAT(proposed(), ElementsAre(ElementsAre("x")));
}

TEST_F(BucketPlannerTest, OnlyAllReduceOfOneTypeIsPlanned) {
  Descriptor gather = tensor(1);
  gather.kind = OpKind::allgather;
  Descriptor mixed = tensor(1);
  mixed.tensors.push_back({DType::float64, {1}});
  for (int i = 0; i < 3; ++i) {
    round({{"g", gather}, {"m", mixed}});
  }
  EXPECT_THAT(proposed(), IsEmpty());
}

TEST_F(BucketPlannerTest, SmallNamesThatWerePendingTogetherAreFusedUpToTheThreshold) {
  for (int i = 0; i < 2; ++i) {
    round({{"a", tensor(100)}, {"b", tensor(100)}, {"large", tensor(101)}, {"c", tensor(60)}});
  }
  EXPECT_THAT(proposed(), UnorderedElementsAre(ElementsAre("large"), ElementsAre("a", "b"), ElementsAre("c")));
}

TEST_F(BucketPlannerTest, TheOrderMayDifferFromRoundToRound) {
  round({{"a", tensor(1)}, {"b", tensor(1)}, {"c", tensor(1)}});
  round({{"c", tensor(1)}, {"a", tensor(1)}, {"b", tensor(1)}});
  EXPECT_THAT(proposed(), ElementsAre(UnorderedElementsAre("a", "b", "c")));
}

TEST_F(BucketPlannerTest, WhatIsAskedForAfterTheOthersAnswerIsNotFused) {
  for (int i = 0; i < 2; ++i) {
    answer("a", tensor(1));
    answer("b", tensor(1));
  }
  EXPECT_THAT(proposed(), ElementsAre(ElementsAre("a"), ElementsAre("b")));
}

TEST_F(BucketPlannerTest, TogetherInOneRoundIsNotEnough) {
  answer("a", tensor(1));
  answer("b", tensor(1));
  round({{"a", tensor(1)}, {"b", tensor(1)}});
  EXPECT_THAT(proposed(), ElementsAre(ElementsAre("a"), ElementsAre("b")));
}

TEST_F(BucketPlannerTest, TwoPatternsInTurnAreNotMixed) {
  for (int i = 0; i < 3; ++i) {
    round({{"a", tensor(1)}, {"both", tensor(1)}});
    round({{"b", tensor(1)}, {"both", tensor(1)}});
  }
  EXPECT_THAT(proposed(), UnorderedElementsAre(ElementsAre("a"), ElementsAre("b"), ElementsAre("both")));
}

TEST_F(BucketPlannerTest, OnlyWhatIsReducedAlikeIsFused) {
  Descriptor max = tensor(1);
  max.reduce_op = ReduceOp::max;
  Descriptor scaled = tensor(1);
  scaled.postscale = 0.5;
  for (int i = 0; i < 2; ++i) {
    round({{"sum", tensor(1)}, {"max", max}, {"scaled", scaled}, {"shared", tensor(1, 64)}, {"sum2", tensor(1)}});
  }
  EXPECT_THAT(proposed(), UnorderedElementsAre(ElementsAre("sum", "sum2"), ElementsAre("max"), ElementsAre("scaled"),
                                               ElementsAre("shared")));
}

TEST_F(BucketPlannerTest, ThresholdZeroFusesNothing) {
  planner_ = BucketPlanner({0, 400, {56, 500}});
  for (int i = 0; i < 2; ++i) {
    round({{"a", tensor(1)}, {"b", tensor(1)}});
  }
  EXPECT_THAT(proposed(), ElementsAre(ElementsAre("a"), ElementsAre("b")));
}

TEST_F(BucketPlannerTest, SmallNamesWaitForTheEndOfTheStepOrLoosePatience) {
  for (int i = 0; i < 3; ++i) {
    round({{"a", tensor(1)}, {"large", tensor(300)}});
    EXPECT_THAT(proposed(false), testing::SizeIs(i == 1 ? 1 : 0));
  }
  answer("a", tensor(1));
  EXPECT_THAT(proposed(false), ElementsAre(ElementsAre("a")));
}

// Trap 9: of this step one member was answered in negotiation already, the other not.
TEST_F(BucketPlannerTest, ABucketIsInstalledOnlyInPhase) {
  learn({{"a", tensor(1)}, {"b", tensor(1)}});
  EXPECT_THAT(planner_.installable(0), ElementsAre(0u));
  answer("a", tensor(1));
  EXPECT_TRUE(planner_.waits_for_phase("b"));
  EXPECT_THAT(planner_.installable(0), IsEmpty());
  planner_.on_error("b");
  EXPECT_THAT(planner_.installable(0), ElementsAre(0u)) << "an error is an answer";
  planner_.on_in_force({0});
  EXPECT_THAT(planner_.installable(0), IsEmpty());
  EXPECT_FALSE(planner_.waits_for_phase("b"));
}

TEST_F(BucketPlannerTest, ABucketComesIntoPhaseAgainWithTheSteps) {
  learn({{"a", tensor(1)}, {"b", tensor(1)}});
  answer("a", tensor(1));  // once more than b
  EXPECT_THAT(planner_.installable(0), IsEmpty());
  round({{"a", tensor(1)}, {"b", tensor(1)}});
  EXPECT_THAT(planner_.installable(0), IsEmpty()) << "one step may be chance";
  answer("a", tensor(1));
  EXPECT_THAT(planner_.installable(0), IsEmpty()) << "in mid-step";
  answer("b", tensor(1));
  EXPECT_THAT(planner_.installable(0), IsEmpty()) << "not asked for together";
  round({{"a", tensor(1)}, {"b", tensor(1)}});
  round({{"a", tensor(1)}, {"b", tensor(1)}});
  EXPECT_THAT(planner_.installable(0), ElementsAre(0u));
}

TEST_F(BucketPlannerTest, StepsThatOverlapBringNoPhase) {
  learn({{"a", tensor(1)}, {"b", tensor(1)}});
  answer("a", tensor(1));
  for (int i = 0; i < 4; ++i) {  // each asked for before the answer of the one before, so either may come first
    const std::uint64_t asked = position_ == 0 ? 0 : position_ - 1;
    for (const char* name : {"a", "b"}) {
      planner_.on_exec(name, tensor(1), {}, asked, ++position_);
    }
    EXPECT_THAT(planner_.installable(0), IsEmpty());
  }
}

TEST_F(BucketPlannerTest, AfterABreakItWaitsForCleanRounds) {
  learn({{"a", tensor(1)}});
  planner_.on_in_force({0});
  planner_.on_epoch_over(false);
  EXPECT_THAT(planner_.installable(2), IsEmpty());
  answer("a", tensor(1));
  EXPECT_THAT(planner_.installable(1), ElementsAre(0u));
  EXPECT_THAT(planner_.installable(2), IsEmpty());
  planner_.on_error("a");
  answer("a", tensor(1));
  EXPECT_THAT(planner_.installable(2), IsEmpty()) << "an error is no clean round";
  answer("a", tensor(1));
  EXPECT_THAT(planner_.installable(2), ElementsAre(0u));
}

TEST_F(BucketPlannerTest, ADemotedNameIsAloneForGood) {
  learn({{"a", tensor(1)}, {"b", tensor(1)}, {"c", tensor(1)}});
  planner_.on_in_force({0});
  planner_.demote("b");
  planner_.demote("unknown");
  EXPECT_THAT(proposed(), IsEmpty()) << "still in force";
  planner_.on_epoch_over(false);
  EXPECT_THAT(planner_.take_retired(), ElementsAre(0u));
  EXPECT_THAT(proposed(), UnorderedElementsAre(ElementsAre("b"), ElementsAre("a", "c")));
}

TEST_F(BucketPlannerTest, AnotherDescriptorDissolvesTheBucket) {
  learn({{"a", tensor(1)}, {"b", tensor(1)}});
  round({{"a", tensor(2)}, {"b", tensor(1)}});
  EXPECT_THAT(planner_.take_retired(), ElementsAre(0u));
  EXPECT_THAT(planner_.installable(0), IsEmpty());
  round({{"a", tensor(2)}, {"b", tensor(1)}});
  EXPECT_THAT(proposed(), ElementsAre(UnorderedElementsAre("a", "b")));
  answer("a", tensor(3));
  EXPECT_THAT(proposed(), IsEmpty()) << "both wait until their bucket is prepared";
  planner_.on_prepared(ids_.back());
  EXPECT_THAT(planner_.take_retired(), ElementsAre(1u));
  EXPECT_THAT(proposed(), ElementsAre(ElementsAre("b")));
  answer("a", tensor(3));
  EXPECT_THAT(proposed(), ElementsAre(ElementsAre("a")));
}

TEST_F(BucketPlannerTest, WhatChangedOftenIsPlannedOnceItHasBeenTheSameForLonger) {
  std::int64_t elements = 0;
  const auto plan_after = [&](int needed) {
    ++elements;
    for (int answers = 1; answers < needed; ++answers) {
      answer("a", tensor(elements));
      ASSERT_THAT(proposed(), IsEmpty()) << answers << " of " << needed;
    }
    answer("a", tensor(elements));
    ASSERT_THAT(proposed(), ElementsAre(ElementsAre("a"))) << needed;
    planner_.on_prepared(ids_.back());
  };
  for (const int needed : {2, 2, 2, 16, 32, 64, 128}) {
    plan_after(needed);
  }
  planner_.on_in_force({ids_.back()});
  planner_.on_epoch_over(false);
  plan_after(256);
  planner_.on_epoch_over(true);  // in which it was not in force
  plan_after(512);
  planner_.on_in_force({ids_.back()});
  planner_.on_epoch_over(true);
  for (const int needed : {2, 2, 16}) {
    plan_after(needed);
  }
}

TEST_F(BucketPlannerTest, WhatChangedOftenWaitsForTheEndOfTheStepLikeOthers) {
  for (std::int64_t elements = 1; elements < 4; ++elements) {
    round({{"a", tensor(elements)}, {"b", tensor(elements)}});
  }
  for (int i = 0; i < 15; ++i) {
    round({{"a", tensor(4)}, {"b", tensor(4)}});
    ASSERT_THAT(proposed(), IsEmpty());
  }
  const std::uint64_t asked = position_;
  planner_.on_exec("a", tensor(4), {}, asked, ++position_);
  EXPECT_THAT(proposed(false), IsEmpty()) << "its 16th, in mid-step";
  planner_.on_exec("b", tensor(4), {}, asked, ++position_);
  EXPECT_THAT(proposed(), ElementsAre(ElementsAre("a", "b")));
}

TEST_F(BucketPlannerTest, AnotherPlaceInMemoryIsAnotherDescriptor) {
  learn({{"a", tensor(1, 64)}});
  answer("a", tensor(1));
  EXPECT_THAT(planner_.take_retired(), ElementsAre(0u));
}

TEST_F(BucketPlannerTest, ARefusedBucketIsNotPlannedAgain) {
  round({{"a", tensor(1)}, {"b", tensor(1)}});
  round({{"a", tensor(1)}, {"b", tensor(1)}});
  EXPECT_THAT(proposed(), testing::SizeIs(1));
  planner_.refuse(0);
  EXPECT_THAT(planner_.take_retired(), ElementsAre(0u));
  for (int i = 0; i < 5; ++i) {
    round({{"a", tensor(1)}, {"b", tensor(1)}});
    EXPECT_THAT(proposed(), IsEmpty());
  }
}

TEST_F(BucketPlannerTest, NamesThatComeOnceAreForgottenInTheEnd) {
  learn({{"kept", tensor(1)}});
  for (std::size_t i = 0; i < NameHistories::kNamesKept + NameHistories::kNamesKept / 8; ++i) {
    answer("once." + std::to_string(i), tensor(1));
  }
  EXPECT_LE(planner_.names_known(), NameHistories::kNamesKept + 1);
  EXPECT_THAT(planner_.installable(0), ElementsAre(0u));
}

TEST_F(BucketPlannerTest, APersistentPlanIsPlannedAfterItsFirstAgreement) {
  Descriptor small = tensor(1);
  Descriptor large = tensor(300);
  small.planned_group = large.planned_group = {9, 3};
  answer("a", small);  // not even together
  answer("b", large);
  EXPECT_THAT(proposed(false), IsEmpty());
  answer("c", small);
  EXPECT_THAT(proposed(false), UnorderedElementsAre(ElementsAre("b"), ElementsAre("a", "c")));
}

TEST_F(BucketPlannerTest, APersistentPlanWhoseFirstStartFailedInPartFollowsTheOrdinaryRules) {
  Descriptor small = tensor(1);
  small.planned_group = {9, 2};
  answer("a", small);
  planner_.on_error("b");
  round({{"a", small}, {"b", small}});
  EXPECT_THAT(proposed(false), IsEmpty());
  round({{"a", small}, {"b", small}});
  EXPECT_THAT(proposed(), ElementsAre(UnorderedElementsAre("a", "b")));
}

}  // namespace
}  // namespace ronde::agreement
