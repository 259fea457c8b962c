// Random histories of the real Member and Coordinator. RONDE_AGREEMENT_SEED=n runs history n alone, with its events;
// RONDE_AGREEMENT_HISTORIES=n runs so many (default 10,000).
#include <gtest/gtest.h>

#include <cstdlib>

#include "agreement/world_for_tests.h"

namespace ronde::agreement::testing_world {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string run_again_with_events(std::uint64_t seed) {
  World world(Author(seed).write());
  world.tracing = true;
  world.run();
  std::string text;
  for (const std::string& event : world.trace) {
    text += event + "\n";
  }
  return text + world.where_all_are();
}

TEST(Interleaving, EveryHistoryKeepsWhatIsPromisedAndEveryCellIsEntered) {
  const std::uint64_t only = number_from("RONDE_AGREEMENT_SEED", 0);
  if (only != 0) {
    World world(Author(only).write());
    EXPECT_EQ(world.run(), "") << run_again_with_events(only);
    std::printf("%s", run_again_with_events(only).c_str());
    return;
  }
  const std::uint64_t histories = number_from("RONDE_AGREEMENT_HISTORIES", 10000);
  Coverage coverage;
  for (std::uint64_t seed = 1; seed <= histories; ++seed) {
    World world(Author(seed).write());
    world.coverage = &coverage;
    const std::string violation = world.run();
    ASSERT_EQ(violation, "") << "history " << seed << "; again with RONDE_AGREEMENT_SEED=" << seed << "\n"
                             << run_again_with_events(seed);
  }
  EXPECT_EQ(coverage.complaints(), "") << coverage.table();
}

}  // namespace
}  // namespace ronde::agreement::testing_world
