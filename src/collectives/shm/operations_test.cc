// What the engine needs of an operation beside the right result: that it says whom it waits for, does not do too much
// at once, and that ranks may run as far apart as the slots allow.
#include <gtest/gtest.h>

#include "collectives/budget.h"
#include "collectives/shm/testing/world.h"

namespace ronde::collectives {
namespace {

Job one_job(OpKind kind, int size, std::int64_t elements) {
  JobSpec spec;
  spec.kind = kind;
  spec.size = size;
  spec.elements = {elements};
  if (kind == OpKind::allgather) {
    spec.rows = {std::vector<std::int64_t>(static_cast<std::size_t>(size), 1)};
  }
  return make_job(spec);
}

/// Steps until nothing moves; true if it is done.
bool run_until_idle(Operation& operation) {
  Progress progress = Progress::again;
  while (progress == Progress::again) {
    progress = operation.advance();
  }
  return progress == Progress::done;
}

TEST(Operations, SayWhomTheyWaitFor) {
  for (const OpKind kind : {OpKind::allreduce, OpKind::allgather, OpKind::broadcast, OpKind::barrier}) {
    for (const std::int64_t elements : {5, 5000}) {
      World world(tiny_slots(3));
      const Job job = one_job(kind, 3, kind == OpKind::barrier ? 0 : elements);
      const auto first = world.begin(1, job.plans[1]);
      EXPECT_FALSE(run_until_idle(*first));
      const bool from_root = kind == OpKind::broadcast;
      EXPECT_EQ(first->waiting_for(), (from_root ? std::vector<int>{0} : std::vector<int>{0, 2})) << op_name(kind);
      const auto second = world.begin(2, job.plans[2]);
      EXPECT_FALSE(run_until_idle(*second));
      run_until_idle(*first);
      EXPECT_EQ(first->waiting_for(), std::vector<int>{0}) << op_name(kind);
    }
  }
}

TEST(Operations, OfARootWaitForTheRankThatKeepsItsSlots) {
  World world(tiny_slots(3));
  const Job job = one_job(OpKind::broadcast, 3, 128L * 10);
  const auto root = world.begin(0, job.plans[0]);
  EXPECT_FALSE(run_until_idle(*root));
  EXPECT_EQ(root->waiting_for(), (std::vector<int>{1, 2}));
}

TEST(Operations, MoveAtMostTheBudgetInOneStep) {
  constexpr std::int64_t kElements = 1'000'000;
  constexpr std::size_t kLeastSteps = kElements * sizeof(float) / kBudgetBytes;
  for (const OpKind kind : {OpKind::allreduce, OpKind::broadcast, OpKind::allgather}) {
    for (const int size : {1, 2}) {
      World world(transport::RegionLayout::for_size(size));
      const Job job = one_job(kind, size, kElements);
      std::vector<std::unique_ptr<Operation>> operations;
      for (int rank = 0; rank < size; ++rank) {
        const auto index = static_cast<std::size_t>(rank);
        operations.push_back(world.begin(index, job.plans[index]));
      }
      std::vector<std::size_t> steps(operations.size(), 0);
      for (std::size_t done = 0; done < operations.size();) {
        done = 0;
        for (std::size_t rank = 0; rank < operations.size(); ++rank) {
          const Progress progress = operations[rank] ? operations[rank]->advance() : Progress::idle;
          steps[rank] += progress == Progress::idle ? 0 : 1;
          if (progress == Progress::done) {
            operations[rank].reset();
          }
          done += operations[rank] == nullptr ? 1 : 0;
        }
      }
      for (const std::size_t each : steps) {
        EXPECT_GE(each, kLeastSteps) << op_name(kind) << " of " << size;
      }
    }
  }
}

TEST(Operations, ARankRunsAheadOfOthersThatOnlyReceive) {
  // The root of a broadcast need not wait for readers, nor need the next root, until slots run out.
  World world(tiny_slots(2));
  const Job job = one_job(OpKind::broadcast, 2, 128);
  for (int round = 0; round < 4; ++round) {
    EXPECT_TRUE(run_until_idle(*world.begin(0, job.plans[0]))) << round;
  }
  const auto fifth = world.begin(0, job.plans[0]);
  EXPECT_FALSE(run_until_idle(*fifth)) << "the first is still unread";
  EXPECT_EQ(fifth->waiting_for(), std::vector<int>{1});
  EXPECT_TRUE(run_until_idle(*world.begin(1, job.plans[1])));
  EXPECT_TRUE(run_until_idle(*fifth));
}

TEST(Operations, ARankOfAScanWaitsForThoseBelowItOnly) {
  for (const OpKind kind : {OpKind::scan, OpKind::exscan}) {
    World world(tiny_slots(3));
    const Job job = one_job(kind, 3, 5);
    const auto second = world.begin(1, job.plans[1]);
    EXPECT_FALSE(run_until_idle(*second));
    EXPECT_EQ(second->waiting_for(), std::vector<int>{0}) << op_name(kind);
    const auto third = world.begin(2, job.plans[2]);
    EXPECT_FALSE(run_until_idle(*third));
    EXPECT_EQ(third->waiting_for(), std::vector<int>{0}) << op_name(kind);
    const auto first = world.begin(0, job.plans[0]);
    EXPECT_TRUE(run_until_idle(*first)) << "it waits for nobody";
    EXPECT_TRUE(run_until_idle(*third));
    EXPECT_TRUE(run_until_idle(*second));
  }
}

TEST(Operations, NotEveryKindHasAnAlgorithm) {
  EXPECT_TRUE(has_algorithm(OpKind::exscan));
  EXPECT_FALSE(has_algorithm(OpKind::send));
  EXPECT_FALSE(has_algorithm(OpKind::join));
}

}  // namespace
}  // namespace ronde::collectives
