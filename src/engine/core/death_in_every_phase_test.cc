// A rank dies after each single step that the ranks of a world make in an operation: while they agree, exchange and
// end. Whatever the phase, every survivor is told who has died or has a right result, and none waits for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "engine/core/engine.h"
#include "support/effort.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using test::LocalWorld;
using test::Vectors;

constexpr int kSize = 4;  // where ranks share no memory, two hosts of two

struct Phased {
  std::string name;
  std::function<Request(std::vector<float>& values)> request;
  float right = 0;  ///< every value of a success, where rank r begins with r + 1
};

void PrintTo(const Phased& operation, std::ostream* out) { *out << operation.name; }

Phased allreduce_phases() {
  return {"allreduce", [](std::vector<float>& values) { return test::allreduce("x", values); }, 10};
}
Phased broadcast_phases() {
  return {"broadcast", [](std::vector<float>& values) { return test::broadcast("x", values, 2); }, 3};
}

class DeathInEveryPhase : public testing::TestWithParam<std::tuple<int, int, std::size_t, Phased>> {
 protected:
  /// Rank by rank, one step each, until nothing moves any more, or `most` steps. Returns how many it were.
  static int move(LocalWorld& world, int most) {
    int steps = 0;
    for (int idle = 0; idle < kSize && steps < most; ++steps) {
      idle = world.step(steps % kSize) ? 0 : idle + 1;
    }
    return steps;
  }

  std::vector<TicketPtr> submit(LocalWorld& world, Vectors& values) const {
    values = test::inputs(kSize, std::get<2>(GetParam()));
    std::vector<TicketPtr> tickets;
    for (std::size_t rank = 0; rank < kSize; ++rank) {
      tickets.push_back(world.submit(static_cast<int>(rank), operation().request(values[rank])));
    }
    return tickets;
  }

  void expect_right(const std::vector<float>& values) const {
    ASSERT_EQ(std::count(values.begin(), values.end(), operation().right), static_cast<std::ptrdiff_t>(values.size()));
  }

  /// After some rounds an all-reduce is replayed.
  void play(LocalWorld& world, int rounds) const {
    Vectors values;
    for (int round = 0; round < rounds; ++round) {
      const std::vector<TicketPtr> tickets = submit(world, values);
      world.settle();
      world.clock().advance(2 * kMillisecond);
      world.settle();
      for (std::size_t rank = 0; rank < kSize; ++rank) {
        ASSERT_TRUE(tickets[rank]->is_done() && tickets[rank]->status()) << "round " << round << ", rank " << rank;
        expect_right(values[rank]);
        world.wait(static_cast<int>(rank), *tickets[rank]);
      }
    }
  }

  static const Phased& operation() { return std::get<3>(GetParam()); }
};

/// A sanitizer sees every seventh death.
constexpr int kEvery = kFullEffort ? 1 : 7;

TEST_P(DeathInEveryPhase, SurvivorsAreToldOrHaveARightResult) {
  const auto victim = static_cast<std::size_t>(std::get<0>(GetParam()));
  const int rounds = std::get<1>(GetParam());
  int all_steps = 1;  // of an undisturbed round, known once a death has come too late for it
  int told = 0;
  int right = 0;
  for (int death = 0; death < all_steps; death += kEvery) {
    LocalWorld world(kSize);
    play(world, rounds);
    Vectors values;
    const std::vector<TicketPtr> tickets = submit(world, values);
    all_steps = move(world, death) == death ? death + kEvery + 1 : 0;
    world.kill(static_cast<int>(victim));
    world.settle();
    for (int i = 0; i < 3; ++i) {
      world.clock().advance(kSecond);  // those that were asked whether they are quiet answer in time
      world.settle();
    }
    for (std::size_t rank = 0; rank < kSize; ++rank) {
      if (rank == victim) {
        continue;
      }
      ASSERT_TRUE(tickets[rank]->is_done()) << "rank " << rank << " after a death in step " << death;
      const Status& status = tickets[rank]->status();
      if (status) {
        expect_right(values[rank]);
        ++right;
      } else {
        ASSERT_EQ(status.code(), Code::peer_lost) << status.message();
        ASSERT_EQ(status.failed_rank(), static_cast<int>(victim)) << status.message();
        ++told;
      }
      ASSERT_EQ(world.try_submit(static_cast<int>(rank), test::barrier("later")).code(), Code::peer_lost) << death;
    }
  }
  EXPECT_GT(told, 0);
  EXPECT_GT(right, 0) << "no death came after the end";
}

std::string name_of(const testing::TestParamInfo<DeathInEveryPhase::ParamType>& info) {
  const auto& [victim, rounds, elements, operation] = info.param;
  return operation.name + "_" + std::to_string(elements) + "_after_" + std::to_string(rounds) + "_rounds_of_" +
         std::to_string(victim);
}

INSTANTIATE_TEST_SUITE_P(Reductions, DeathInEveryPhase,
                         testing::Combine(testing::Values(0, 1, 3), testing::Values(0, 5),
                                          testing::Values(std::size_t{3}, std::size_t{100000}),
                                          testing::Values(allreduce_phases())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Broadcasts, DeathInEveryPhase,
                         testing::Combine(testing::Values(0, 2, 3), testing::Values(0),
                                          testing::Values(std::size_t{3}, std::size_t{100000}),
                                          testing::Values(broadcast_phases())),
                         name_of);

}  // namespace
}  // namespace ronde::engine
