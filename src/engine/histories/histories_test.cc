// Random histories of whole jobs by messages, with values. RONDE_AGREEMENT_SEED=n runs history n alone, with its
// events; RONDE_AGREEMENT_HISTORIES=n runs so many, RONDE_AGREEMENT_FIRST=n from this one on.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "engine/histories/testing/world.h"
#include "support/effort.h"

namespace ronde::engine::histories {
namespace {

std::string run_again_with_events(std::uint64_t seed) {
  return agreement::testing_world::run_with_events(World(write_history(seed)));
}

class Histories : public testing::Test {
 protected:
  Histories() { set_log_level(LogLevel::off); }
  ~Histories() override { set_log_level(LogLevel::warning); }
};

TEST_F(Histories, EveryOneKeepsWhatIsPromisedWithRightValues) {
  const std::uint64_t only = number_from("RONDE_AGREEMENT_SEED", 0);
  if (only != 0) {
    World world(write_history(only));
    EXPECT_EQ(world.run(), "");
    std::printf("%s", run_again_with_events(only).c_str());
    return;
  }
  const std::uint64_t first = number_from("RONDE_AGREEMENT_FIRST", 1);
  const std::uint64_t histories = number_from("RONDE_AGREEMENT_HISTORIES", effort(8000));
  Coverage coverage;
  for (std::uint64_t seed = first; seed < first + histories; ++seed) {
    World world(write_history(seed));
    world.coverage = &coverage;
    const std::string violation = world.run();
    ASSERT_EQ(violation, "") << "history " << seed << "; again with RONDE_AGREEMENT_SEED=" << seed << "\n"
                             << run_again_with_events(seed);
    if ((seed - first + 1) % 20'000 == 0) {
      std::printf("%llu histories\n", static_cast<unsigned long long>(seed - first + 1));
      std::fflush(stdout);
    }
  }
  if (kFullEffort && histories >= static_cast<std::uint64_t>(effort(8000))) {
    EXPECT_EQ(coverage.complaints(), "") << coverage.table();
  }
  if (std::getenv("RONDE_AGREEMENT_HISTORIES") != nullptr) {
    std::printf("%s", coverage.table().c_str());
  }
}

}  // namespace
}  // namespace ronde::engine::histories
