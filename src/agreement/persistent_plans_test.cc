#include "agreement/persistent_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PersistentPlansTest : public testing::Test {
 protected:
  static Descriptor marked(std::uint64_t plan, std::uint32_t size) {
    Descriptor descriptor;
    descriptor.tensors = {{DType::float32, {1}}};
    descriptor.planned_group = {plan, size};
    return descriptor;
  }
  void answer(NameHistory& history, const Descriptor& descriptor) {
    history.on_exec(descriptor, {}, {});
    if (history.same == 1) {
      plans_.on_first_answer(history);
    }
  }

  PersistentPlans plans_;
  NameHistory a_;
  NameHistory b_;
};

TEST_F(PersistentPlansTest, WithoutPlansNoneIsComplete) {
  answer(a_, marked(0, 0));
  EXPECT_THAT(plans_.take_complete(), IsEmpty());
  EXPECT_FALSE(a_.is_persistent);
}

TEST_F(PersistentPlansTest, APlanOfOneNameIsCompleteAtOnce) {
  answer(a_, marked(9, 1));
  EXPECT_TRUE(a_.is_persistent);
  EXPECT_THAT(plans_.take_complete(), ElementsAre(9u));
  EXPECT_THAT(plans_.names_to_plan(9), ElementsAre(&a_));
  EXPECT_THAT(plans_.take_complete(), IsEmpty()) << "told once";
}

TEST_F(PersistentPlansTest, APlanIsCompleteWhenEachOfItsNamesHasCome) {
  answer(a_, marked(9, 2));
  answer(a_, marked(9, 2));
  EXPECT_THAT(plans_.take_complete(), IsEmpty());
  answer(b_, marked(7, 2));
  EXPECT_THAT(plans_.take_complete(), IsEmpty()) << "of another plan";
  answer(b_, marked(9, 2));
  EXPECT_THAT(plans_.take_complete(), ElementsAre(9u));
}

TEST_F(PersistentPlansTest, AnswersBeforeTheMarkDoNotCount) {
  answer(a_, marked(0, 0));
  answer(a_, marked(9, 2));
  answer(b_, marked(9, 2));
  EXPECT_THAT(plans_.names_to_plan(9), ElementsAre(&a_, &b_));
}

TEST_F(PersistentPlansTest, NamesThatCameUnequallyOftenAreNotPlannedByIt) {
  answer(a_, marked(9, 2));
  answer(a_, marked(9, 2));
  answer(b_, marked(9, 2));
  EXPECT_THAT(plans_.names_to_plan(9), IsEmpty());
  answer(b_, marked(9, 2));
  EXPECT_THAT(plans_.names_to_plan(9), ElementsAre(&a_, &b_));
}

TEST_F(PersistentPlansTest, ANameThatHasLeftThePlanKeepsTheOthersFromIt) {
  answer(a_, marked(9, 2));
  answer(b_, marked(9, 2));
  answer(b_, marked(7, 1));
  EXPECT_THAT(plans_.names_to_plan(9), IsEmpty());
  EXPECT_THAT(plans_.names_to_plan(7), ElementsAre(&b_));
}

TEST_F(PersistentPlansTest, WhatIsPlannedOrNotToBePlannedIsLeftOut) {
  answer(a_, marked(9, 2));
  answer(b_, marked(9, 2));
  a_.bucket = 0;
  EXPECT_THAT(plans_.names_to_plan(9), ElementsAre(&b_));
  a_.bucket = NameHistory::kNoBucket;
  a_.never = true;
  EXPECT_THAT(plans_.names_to_plan(9), ElementsAre(&b_));
  a_.never = false;
  a_.changes = NameHistory::kFewChanges + 1;
  EXPECT_THAT(plans_.names_to_plan(9), ElementsAre(&b_));
  a_.changes = 0;
  a_.begin_again();
  EXPECT_THAT(plans_.names_to_plan(9), ElementsAre(&b_));
}

TEST_F(PersistentPlansTest, WhatReplayCannotDoIsLeftOut) {
  Descriptor gather = marked(9, 2);
  gather.kind = OpKind::allgather;
  answer(a_, gather);
  answer(b_, marked(9, 2));
  EXPECT_THAT(plans_.take_complete(), ElementsAre(9u));
  EXPECT_THAT(plans_.names_to_plan(9), ElementsAre(&b_));
}

}  // namespace
}  // namespace ronde::agreement
