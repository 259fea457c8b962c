#include "collectives/single_rank.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "collectives/budget.h"

namespace ronde::collectives {
namespace {

/// An operation of one rank on a list of two, of which the first is empty.
struct OfOne {
  explicit OfOne(std::size_t count) : input(count), output(count, -1.0f) {
    for (std::size_t i = 0; i < count; ++i) {
      input[i] = static_cast<float>(i % 1000);
    }
    plan.dtype = DType::float32;
    plan.members.resize(2);
    for (PlanMember& member : plan.members) {
      member.input.shape = member.output.shape = {0};
    }
    plan.members[1].input.data = input.data();
    plan.members[1].output.data = output.data();
    plan.members[1].input.shape = plan.members[1].output.shape = {static_cast<std::int64_t>(count)};
  }

  /// How many times it was advanced until done.
  int run(const std::unique_ptr<Operation>& operation) {
    EXPECT_TRUE(operation->waiting_for().empty());
    int times = 1;
    while (operation->advance() != Progress::done && times < 1000) {
      ++times;
    }
    return times;
  }

  std::vector<float> input;
  std::vector<float> output;
  Plan plan;
};

constexpr std::size_t kBeyondABudget = kBudgetBytes / sizeof(float) + 1;

TEST(SingleRank, AReductionScalesItsOwnValues) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::adasum}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1001}}) {
      OfOne one(count);
      one.plan.reduce_op = op;
      one.plan.prescale = 2;
      one.plan.postscale = 0.25;
      EXPECT_EQ(one.run(allreduce_of_single_rank(one.plan)), 1);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(one.output[i], one.input[i] * 0.5f) << i;
      }
    }
  }
}

TEST(SingleRank, ACopyIsNotScaled) {
  OfOne one(1001);
  one.plan.prescale = 2;
  one.run(copy_of_single_rank(one.plan));
  EXPECT_EQ(one.output, one.input);
}

TEST(SingleRank, WhatIsLongGoesInPieces) {
  OfOne copied(kBeyondABudget);
  EXPECT_EQ(copied.run(copy_of_single_rank(copied.plan)), 2);
  EXPECT_EQ(copied.output, copied.input);
  OfOne filled(kBeyondABudget);
  EXPECT_EQ(filled.run(exscan_of_single_rank(filled.plan)), 2);
  EXPECT_EQ(filled.output, std::vector<float>(kBeyondABudget));
}

TEST(SingleRank, AnExclusiveScanHasTheValueOfNoRanks) {
  OfOne one(3);
  one.plan.reduce_op = ReduceOp::min;
  one.run(exscan_of_single_rank(one.plan));
  EXPECT_EQ(one.output, std::vector<float>(3, std::numeric_limits<float>::infinity()));
}

}  // namespace
}  // namespace ronde::collectives
