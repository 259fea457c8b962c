// Worlds whose backend needs one order of all that the ranks launch: buckets that fill in another order on each rank,
// breaks, joins, ranks that leave, stop or die. All of the engine's tests of worlds run over such a backend besides
// (cmake/engine_by_messages.cmake).
#include "engine/testing/ordered_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/testing/steps.h"
#include "support/effort.h"

namespace ronde::engine {
namespace {

using test::LocalWorld;
using testing::HasSubstr;
using testing::IsEmpty;

/// Steps over backends that compare what they launch.
class OrderedSteps {
 public:
  explicit OrderedSteps(int size, bool says_so = true)
      : order(std::make_shared<LaunchOrder>(size)),
        steps(size, {}, [this, says_so](int rank, std::unique_ptr<backend::Backend> inner) {
          return std::make_unique<OrderedBackend>(std::move(inner), order, rank, says_so);
        }) {}

  void play(int count, const std::vector<std::pair<std::string, std::size_t>>& names = kModel) {
    for (int i = 0; i < count; ++i) {
      ASSERT_NO_FATAL_FAILURE(steps.step(names));
      ASSERT_THAT(order->failure(), IsEmpty());
    }
  }
  /// Where one rank is alone nothing is replayed.
  void expect_replayed() {
    if (steps.world.size() > 1) {
      EXPECT_GT(steps.counters(0).instances, 0u);
      EXPECT_THAT(order->all(), testing::Contains(HasSubstr("instance")));
    }
  }
  void expect_all_launched_all() {
    EXPECT_THAT(order->failure(), IsEmpty());
    for (int rank = 0; rank < steps.world.size(); ++rank) {
      EXPECT_EQ(order->launched_by(rank), order->all().size()) << "rank " << rank;
    }
  }

  std::shared_ptr<LaunchOrder> order;
  Steps steps;
};

class OrderedWorlds : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, OrderedWorlds, testing::Values(1, 2, 3, 5));

TEST_P(OrderedWorlds, PlansAndInstancesAreLaunchedInOneOrder) {
  OrderedSteps world(GetParam());
  auto with_metric = kModel;
  with_metric.emplace_back("metric", 3);
  for (int i = 0; i < 10; ++i) {
    ASSERT_NO_FATAL_FAILURE(world.play(3));
    ASSERT_NO_FATAL_FAILURE(world.play(1, i % 2 == 0 ? with_metric : kModel));
    // A name that never comes again: a plan between the instances.
    ASSERT_NO_FATAL_FAILURE(world.play(1, {{"dense", 20000}, {"new" + std::to_string(i), 7}, {"head", 70001}}));
  }
  world.expect_replayed();
  world.expect_all_launched_all();
}

// No request is sent in the steady state: of each instance the coordinator hears once from each rank, and answers all.
TEST_P(OrderedWorlds, ABucketCostsOneNoteAndOneEntry) {
  if (GetParam() == 1) {
    return;
  }
  OrderedSteps world(GetParam());
  ASSERT_NO_FATAL_FAILURE(world.play(8, {{"x", 3000}}));
  const std::uint64_t entries = world.steps.entries();
  const std::uint64_t instances = world.steps.counters(0).instances;
  ASSERT_NO_FATAL_FAILURE(world.play(10, {{"x", 3000}}));
  EXPECT_EQ(world.steps.counters(0).instances, instances + 10);
  EXPECT_EQ(world.steps.entries(), entries + 10 * static_cast<std::uint64_t>(GetParam()));
}

// The mutation: a backend that does not say that it needs one order is launched by flags, and this test sees it.
TEST(Ordered, LaunchingByFlagsIsSeen) {
  OrderedSteps world(2, false);
  for (int i = 0; i < 20 && world.order->failure().empty(); ++i) {
    ASSERT_NO_FATAL_FAILURE(world.steps.step({{"dense", 20000}, {"conv", 30000}, {"head", 70001}}));
  }
  EXPECT_THAT(world.order->failure(), HasSubstr("and on another rank it was instance"));
}

// ---- Breaks

TEST_P(OrderedWorlds, ShapesThatChangeBreakTheEpochInOrder) {
  OrderedSteps world(GetParam());
  ASSERT_NO_FATAL_FAILURE(world.play(6));
  for (std::size_t round = 1; round <= 3; ++round) {
    auto changed = kModel;
    changed[3].second += 500 * round;
    changed[0].second += round;
    ASSERT_NO_FATAL_FAILURE(world.play(10, changed));
  }
  world.expect_replayed();
  world.expect_all_launched_all();
  if (GetParam() > 1) {
    EXPECT_GE(world.steps.counters(0).breaks, 1u);
    EXPECT_GE(world.steps.counters(0).installs, 2u);
  }
}

// What is launched before BREAK is finished, what is not goes back: here each rank has its reason to break at a moment
// of its own, in the middle of what is under way.
TEST_P(OrderedWorlds, ABreakAtAnyMomentLosesNothing) {
  for (int moves = 0; moves < effort(40); ++moves) {
    OrderedSteps world(GetParam());
    ASSERT_NO_FATAL_FAILURE(world.play(6));
    Steps& steps = world.steps;
    std::mt19937 random(static_cast<unsigned>(moves));
    const auto move = [&](int times) {
      for (int i = 0; i < times; ++i) {
        steps.world.step(static_cast<int>(random() % static_cast<unsigned>(GetParam())));
      }
    };
    std::vector<int> ranks;
    for (int rank = 0; rank < GetParam(); ++rank) {
      ranks.push_back(rank);
      auto order = kModel;
      std::shuffle(order.begin(), order.end(), random);
      for (const auto& [name, elements] : order) {
        if (name != "dense") {
          steps.submit(rank, name, elements);
        }
      }
    }
    move(moves);
    std::shuffle(ranks.begin(), ranks.end(), random);
    for (int rank : ranks) {
      steps.submit(rank, "dense", 20001);
      move(moves % 5);
    }
    ASSERT_NO_FATAL_FAILURE(steps.finish());
    ASSERT_NO_FATAL_FAILURE(world.play(8));
    world.expect_all_launched_all();
  }
}

// ---- Joins

TEST_P(OrderedWorlds, RanksJoinAndReplayComesBack) {
  OrderedSteps world(GetParam());
  const int size = GetParam();
  LocalWorld& ranks = world.steps.world;
  for (int round = 0; round < 3; ++round) {
    ASSERT_NO_FATAL_FAILURE(world.play(8));
    // Rank r has r steps more than the first.
    std::vector<TicketPtr> joins;
    std::vector<std::vector<float>> values(static_cast<std::size_t>(size), std::vector<float>(3000, 1));
    for (int step = 0; step <= size; ++step) {
      std::vector<TicketPtr> tickets;
      for (int rank = 0; rank < size; ++rank) {
        if (step < rank) {
          tickets.push_back(ranks.submit(rank, test::allreduce("conv", values[static_cast<std::size_t>(rank)])));
        } else if (step == rank) {
          Request join;
          join.kind = OpKind::join;
          join.name = "join";
          joins.push_back(ranks.submit(rank, std::move(join)));
        }
      }
      ranks.settle();
      ASSERT_THAT(world.order->failure(), IsEmpty());
      for (const TicketPtr& ticket : tickets) {
        ASSERT_TRUE(ticket->is_done());
        EXPECT_TRUE(ticket->status()) << ticket->status().message();
      }
      for (int rank = step + 1; rank < size; ++rank) {
        ranks.wait(rank, *tickets[static_cast<std::size_t>(rank - step - 1)]);
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      const TicketPtr& joined = joins[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(joined->is_done());
      EXPECT_TRUE(joined->status()) << joined->status().message();
      ranks.wait(rank, *joined);
    }
  }
  world.expect_replayed();
  world.expect_all_launched_all();
}

// ---- Ends

/// Rank and ticket of what all ranks submit: the model, of which `victim`, if it is a rank, submits "head" alone.
std::vector<std::pair<int, TicketPtr>> submit_model(Steps& steps, int victim) {
  std::vector<std::pair<int, TicketPtr>> tickets;
  for (int rank = 0; rank < steps.world.size(); ++rank) {
    for (const auto& [name, elements] : kModel) {
      if (rank != victim || name == "head") {
        tickets.emplace_back(rank, steps.submit(rank, name, elements));
      }
    }
  }
  return tickets;
}

class OrderedVictim : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, OrderedVictim, testing::Values(0, 1, 2));

TEST_P(OrderedVictim, ADeathAtAnyMomentIsToldToAll) {
  for (int moves = 0; moves < effort(40); ++moves) {
    OrderedSteps world(3);
    ASSERT_NO_FATAL_FAILURE(world.play(6));
    LocalWorld& ranks = world.steps.world;
    const std::vector<std::pair<int, TicketPtr>> tickets = submit_model(world.steps, -1);
    for (int i = 0; i < moves; ++i) {
      ranks.step(i % 3);
    }
    ranks.kill(GetParam());
    ranks.settle();
    EXPECT_THAT(world.order->failure(), IsEmpty());
    for (const auto& [rank, ticket] : tickets) {
      if (rank == GetParam()) {
        continue;
      }
      ASSERT_TRUE(ticket->is_done()) << ticket->name() << " of rank " << rank << " after " << moves;
      if (!ticket->status()) {
        EXPECT_EQ(ticket->status().code(), Code::peer_lost) << ticket->status().message();
        EXPECT_EQ(ticket->status().failed_rank(), GetParam());
      }
    }
  }
}

// At any moment, without a word to anybody first; the coordinator's own last entries may have been read or not.
TEST_P(OrderedVictim, ARankThatExitsAtAnyMomentHoldsUpNobody) {
  for (int moves = 0; moves < effort(40); ++moves) {
    OrderedSteps world(3);
    ASSERT_NO_FATAL_FAILURE(world.play(6));
    LocalWorld& ranks = world.steps.world;
    const std::vector<std::pair<int, TicketPtr>> tickets = submit_model(world.steps, GetParam());
    for (int i = 0; i < moves; ++i) {
      ranks.step(i % 3);
    }
    ranks.engine(GetParam()).begin_leave();
    ranks.engine(GetParam()).finish_leave();
    ranks.kill(GetParam());
    ranks.settle();
    EXPECT_THAT(world.order->failure(), IsEmpty());
    for (const auto& [rank, ticket] : tickets) {
      ASSERT_TRUE(ticket->is_done()) << ticket->name() << " of rank " << rank << " after " << moves;
      if (rank != GetParam() && !ticket->status()) {
        EXPECT_EQ(ticket->status().code(), Code::peer_left) << ticket->status().message();
        EXPECT_NE(ticket->status().failed_rank(), rank) << "it, or one that has given up because of it";
      }
    }
  }
}

}  // namespace
}  // namespace ronde::engine
