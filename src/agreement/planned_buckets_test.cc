#include "agreement/planned_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class PlannedBucketsTest : public testing::Test {
 protected:
  PlannedBucketsTest() {
    for (auto& [name, history] : {std::pair<const std::string&, NameHistory&>{kA, a_}, {kB, b_}}) {
      history.name = &name;
    }
    answer_both();
    answer_both();
  }
  void answer(NameHistory& history, std::uint64_t asked) {
    Descriptor descriptor;
    descriptor.tensors = {{DType::float32, {1}}};
    history.on_exec(descriptor, {}, {asked, ++position_});
    history.order = ++order_;
    buckets_.on_answer(history);
  }
  void answer_one(NameHistory& history) { answer(history, position_); }
  /// Both were requested before the answer to either was read.
  void answer_both() {
    const std::uint64_t asked = position_;
    answer(a_, asked);
    answer(b_, asked);
  }
  void make_ready(const std::vector<NameHistory*>& names) { buckets_.on_prepared(buckets_.make(names).id); }
  /// The names whose buckets were retired.
  std::vector<std::string> released() {
    std::vector<std::string> names;
    for (const PlannedBuckets::Released& released : buckets_.take_released()) {
      names.push_back(*released.history->name + (released.is_unused ? " (unused)" : ""));
    }
    return names;
  }
  std::size_t count_use(const std::vector<std::uint32_t>& unused = {}) { return buckets_.count_use(unused, order_); }

  const std::string kA = "a";
  const std::string kB = "b";
  NameHistory a_;
  NameHistory b_;
  PlannedBuckets buckets_;
  std::uint64_t position_ = 0;
  std::uint64_t order_ = 0;
};

TEST_F(PlannedBucketsTest, WithoutBucketsThereIsNothingToDo) {
  buckets_.on_answer(a_);
  buckets_.dissolve_of(a_);
  buckets_.on_in_force({});
  buckets_.on_epoch_over(true);
  EXPECT_EQ(count_use(), 0u);
  EXPECT_EQ(buckets_.live(), 0u);
  EXPECT_FALSE(buckets_.waits_for_phase(a_));
  EXPECT_THAT(buckets_.installable(0), IsEmpty());
  EXPECT_THAT(buckets_.take_retired(), IsEmpty());
  EXPECT_THAT(released(), IsEmpty());
}

TEST_F(PlannedBucketsTest, ABucketIsMadeOfWhatIsKnownOfItsNames) {
  a_.planning_name = "p";
  a_.turn = 3;
  a_.places = {MemoryPlace(64)};
  buckets_.make({&b_});
  const Bucket& bucket = buckets_.make({&a_});
  EXPECT_EQ(bucket.id, 1u);
  EXPECT_THAT(bucket.members, ElementsAre(BucketMember{"a", a_.descriptor, {MemoryPlace(64)}, "p", 3}));
  EXPECT_EQ(a_.bucket, 1u);
  EXPECT_EQ(b_.bucket, 0u);
  EXPECT_EQ(buckets_.live(), 2u);
}

TEST_F(PlannedBucketsTest, PlacingGivesItALayout) {
  buckets_.make({&a_});
  EXPECT_FALSE(buckets_.is_placed(0));
  buckets_.place(0, {"here", false});
  EXPECT_TRUE(buckets_.is_placed(0));
  EXPECT_EQ(buckets_.bucket(0).layout, "here");
  EXPECT_FALSE(buckets_.bucket(0).has_done_words);
}

TEST_F(PlannedBucketsTest, OnlyWhatIsPreparedAndNotInForceIsInstallable) {
  buckets_.make({&a_, &b_});
  EXPECT_THAT(buckets_.installable(0), IsEmpty());
  EXPECT_FALSE(buckets_.waits_for_phase(a_));
  buckets_.on_prepared(0);
  EXPECT_TRUE(buckets_.waits_for_phase(a_));
  EXPECT_THAT(buckets_.installable(0), ElementsAre(0u));
  EXPECT_THAT(buckets_.installable(0), ElementsAre(0u)) << "until it is in force";
  buckets_.on_in_force({0});
  EXPECT_THAT(buckets_.installable(0), IsEmpty());
  EXPECT_FALSE(buckets_.waits_for_phase(a_));
  buckets_.on_epoch_over(false);
  EXPECT_THAT(buckets_.installable(0), ElementsAre(0u));
}

TEST_F(PlannedBucketsTest, ARefusedBucketsNamesAreNeverPlannedAgain) {
  buckets_.make({&a_});
  buckets_.refuse(0);
  EXPECT_TRUE(a_.never);
  EXPECT_EQ(a_.bucket, NameHistory::kNoBucket);
  EXPECT_THAT(released(), ElementsAre("a"));
  EXPECT_THAT(buckets_.take_retired(), ElementsAre(0u));
  EXPECT_EQ(buckets_.live(), 0u);
  EXPECT_FALSE(b_.never);
}

TEST_F(PlannedBucketsTest, ABucketThatIsReadyIsDissolvedAtOnce) {
  make_ready({&a_, &b_});
  buckets_.dissolve_of(a_);
  EXPECT_THAT(released(), ElementsAre("a", "b"));
  EXPECT_THAT(buckets_.take_retired(), ElementsAre(0u));
  EXPECT_THAT(buckets_.installable(0), IsEmpty());
  EXPECT_THAT(buckets_.bucket(0).members, IsEmpty()) << "what is kept of it is small";
  EXPECT_THAT(buckets_.take_retired(), IsEmpty());
}

TEST_F(PlannedBucketsTest, ABucketThatIsBeingPreparedIsDissolvedOnceItIs) {
  buckets_.make({&a_});
  buckets_.dissolve_of(a_);
  buckets_.on_epoch_over(false);
  EXPECT_THAT(released(), IsEmpty());
  buckets_.on_prepared(0);
  EXPECT_THAT(released(), ElementsAre("a"));
  EXPECT_THAT(buckets_.installable(0), IsEmpty());
}

TEST_F(PlannedBucketsTest, ABucketInForceIsDissolvedWhenItsEpochIsOver) {
  make_ready({&a_});
  make_ready({&b_});
  buckets_.on_in_force({0, 1});
  buckets_.dissolve_of(a_);
  buckets_.dissolve_of(a_);
  EXPECT_THAT(released(), IsEmpty());
  EXPECT_EQ(a_.bucket, 0u);
  buckets_.on_epoch_over(false);
  EXPECT_THAT(released(), ElementsAre("a"));
  EXPECT_THAT(buckets_.installable(0), ElementsAre(1u));
}

TEST_F(PlannedBucketsTest, AfterABreakItsNamesMustComeAgain) {
  make_ready({&a_, &b_});
  buckets_.on_in_force({0});
  buckets_.on_epoch_over(false);
  a_.on_break();
  b_.on_break();
  answer_both();
  EXPECT_THAT(buckets_.installable(2), IsEmpty());
  answer_both();
  EXPECT_THAT(buckets_.installable(2), ElementsAre(0u));
}

TEST_F(PlannedBucketsTest, OnlyServiceInAHealthyEpochMakesUpForChanges) {
  a_.changes = b_.changes = 5;
  make_ready({&a_});
  buckets_.make({&b_});
  buckets_.on_in_force({0});
  buckets_.on_epoch_over(false);
  EXPECT_EQ(a_.changes, 5u);
  buckets_.on_in_force({0});
  buckets_.dissolve_of(a_);
  buckets_.on_epoch_over(true);
  EXPECT_EQ(a_.changes, 0u) << "dissolved or not";
  EXPECT_EQ(b_.changes, 5u) << "it was not in force";
  buckets_.dissolve_of(b_);
  buckets_.on_epoch_over(true);
  EXPECT_EQ(b_.changes, 5u) << "nor was it before it was dissolved";
}

// ---- In phase

TEST_F(PlannedBucketsTest, OutOfPhaseOnceOneMemberHasHadMoreAnswers) {
  make_ready({&a_, &b_});
  answer_one(a_);
  EXPECT_THAT(buckets_.installable(0), IsEmpty());
  answer_one(b_);
  EXPECT_THAT(buckets_.installable(0), ElementsAre(0u));
}

TEST_F(PlannedBucketsTest, TwoStepsInARowBringItIntoPhaseAgain) {
  make_ready({&a_, &b_});
  answer_one(a_);
  answer_both();
  EXPECT_THAT(buckets_.installable(0), IsEmpty()) << "one may be chance";
  answer_both();
  EXPECT_THAT(buckets_.installable(0), ElementsAre(0u));
}

// Each round is asked for before the answer of the one before, so nobody knows where a step begins.
TEST_F(PlannedBucketsTest, StepsThatOverlapDoNot) {
  make_ready({&a_, &b_});
  answer_one(a_);
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t asked = position_ - 1;
    answer(a_, asked);
    answer(b_, asked);
    EXPECT_THAT(buckets_.installable(0), IsEmpty());
  }
}

TEST_F(PlannedBucketsTest, OnlyBucketsWhoseNamesWereAnsweredAreLookedAt) {
  make_ready({&a_});
  make_ready({&b_});
  EXPECT_EQ(buckets_.stirred(), 2u);
  buckets_.on_in_force({0, 1});
  EXPECT_EQ(buckets_.stirred(), 0u);
  buckets_.on_epoch_over(false);
  a_.on_break();
  b_.on_break();
  EXPECT_THAT(buckets_.installable(1), IsEmpty());
  EXPECT_EQ(buckets_.stirred(), 0u);
  answer_one(b_);
  EXPECT_EQ(buckets_.stirred(), 1u);
  EXPECT_THAT(buckets_.installable(1), ElementsAre(1u));
}

// ---- Use

TEST_F(PlannedBucketsTest, WhatWasNeitherReplayedNorAnsweredGoesWithItsNames) {
  make_ready({&a_});
  make_ready({&b_});
  buckets_.on_in_force({0, 1});
  EXPECT_EQ(count_use({0, 1}), 0u) << "and nothing goes: both were answered before";
  EXPECT_EQ(count_use({1}), 1u);
  EXPECT_THAT(released(), IsEmpty()) << "it is in force";
  buckets_.on_epoch_over(true);
  EXPECT_THAT(released(), ElementsAre("b (unused)"));
  EXPECT_THAT(buckets_.take_retired(), ElementsAre(1u));
  EXPECT_EQ(buckets_.live(), 1u);
}

TEST_F(PlannedBucketsTest, ANameThatIsAnsweredBeforeItsUnusedBucketGoesIsKept) {
  make_ready({&a_, &b_});
  buckets_.on_in_force({0});
  count_use({0});
  count_use({0});
  answer_one(b_);
  buckets_.on_epoch_over(true);
  EXPECT_THAT(released(), ElementsAre("a (unused)", "b"));
}

TEST_F(PlannedBucketsTest, WhatWasReadyAndNotAnsweredGoesAtOnce) {
  make_ready({&a_, &b_});
  count_use();
  count_use();
  EXPECT_THAT(released(), UnorderedElementsAre("a (unused)", "b (unused)"));
}

TEST_F(PlannedBucketsTest, WhatWasAnsweredSinceStays) {
  make_ready({&a_, &b_});
  count_use();
  answer_one(b_);
  count_use();
  EXPECT_THAT(released(), IsEmpty());
  EXPECT_EQ(b_.same, 3u) << "nor need it begin again";
}

TEST_F(PlannedBucketsTest, PersistentPlansUnnamedCallsAndCandidatesStay) {
  for (const auto& keep :
       std::vector<std::function<void()>>{[this] { a_.is_persistent = true; }, [this] { a_.planning_name = "p"; },
                                          [this] { a_.is_candidate = true; }}) {
    buckets_ = {};
    a_.is_persistent = a_.is_candidate = false;
    a_.planning_name = "";
    keep();
    make_ready({&a_});
    count_use();
    count_use();
    EXPECT_THAT(released(), IsEmpty());
    EXPECT_EQ(buckets_.live(), 1u);
  }
}

}  // namespace
}  // namespace ronde::agreement
