// Random histories of the real Member and Coordinator. RONDE_AGREEMENT_SEED=n runs history n alone, with its events;
// RONDE_AGREEMENT_HISTORIES=n runs so many (default 10,000).
#include <gtest/gtest.h>

#include <cstdlib>

#include "agreement/testing/world.h"
#include "support/effort.h"

namespace ronde::agreement::testing_world {
namespace {

std::string run_again_with_events(std::uint64_t seed) { return run_with_events(World(Author(seed).write())); }

TEST(Interleaving, EveryHistoryKeepsWhatIsPromisedAndEveryCellIsEntered) {
  const std::uint64_t only = number_from("RONDE_AGREEMENT_SEED", 0);
  if (only != 0) {
    World world(Author(only).write());
    EXPECT_EQ(world.run(), "") << run_again_with_events(only);
    std::printf("%s", run_again_with_events(only).c_str());
    return;
  }
  const std::uint64_t histories = number_from("RONDE_AGREEMENT_HISTORIES", effort(10000));
  Coverage coverage;
  for (std::uint64_t seed = 1; seed <= histories; ++seed) {
    World world(Author(seed).write());
    world.coverage = &coverage;
    const std::string violation = world.run();
    ASSERT_EQ(violation, "") << "history " << seed << "; again with RONDE_AGREEMENT_SEED=" << seed << "\n"
                             << run_again_with_events(seed);
  }
  if (kFullEffort) {
    EXPECT_EQ(coverage.complaints(), "") << coverage.table();
  }
}

/// A thousand steps with two optimizers in turn, a metric every ten steps and a phase without any request: once each
/// name is known nothing goes to the coordinator any more.
TEST(Interleaving, TheSteadyStateSendsNothing) {
  constexpr int kSteps = std::max(effort(1000), 100);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Scenario scenario;
    scenario.seed = seed;
    scenario.ranks = seed % 2 == 0 ? 3 : 2;
    scenario.messages = seed > 2;
    scenario.settings = {4000, 450, {56, 500}};
    scenario.names = {{"t0", 1, false}, {"t1", 4, true}, {"t2", 100, false}, {"t3", 300, false}, {"t4", 1, false}};
    Dice dice(seed);
    std::size_t learnt = 0;
    for (int rank = 0; rank < scenario.ranks; ++rank) {
      std::vector<Op>& program = scenario.programs.emplace_back();
      for (int step = 0; step < kSteps; ++step) {
        std::vector<std::size_t> names =
            step % 2 == 0 ? std::vector<std::size_t>{0, 1} : std::vector<std::size_t>{2, 3};
        dice.shuffle(names);
        if (step % 10 == 0) {
          names.push_back(4);
        }
        for (std::size_t name : names) {
          program.push_back({Op::Kind::submit, name});
        }
        for (std::size_t name : names) {
          program.push_back({Op::Kind::wait, name});
        }
        learnt = step == 30 ? program.size() : learnt;
      }
    }
    World world(scenario);
    EXPECT_EQ(world.run(1 << 20), "") << world.where_all_are();
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(scenario.ranks); ++rank) {
      EXPECT_LE(world.last_request(rank), learnt) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace ronde::agreement::testing_world
