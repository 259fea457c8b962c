// Each trap of the protocol as a mutation of the real code (traps.h; of the simulated data plane where the rule is the
// data plane's), and the proof that the interleaving test catches it. Compiled apart from the library, with
// RONDE_AGREEMENT_MUTANTS. The name of a mutation is the one in docs/agreement.md.
#include <gtest/gtest.h>

#include "agreement/testing/world.h"

namespace ronde::agreement::testing_world {
namespace {

struct Mutation {
  Trap trap;
  const char* name;
};

constexpr Mutation kMutations[] = {
    {Trap::no_freeze_wait, "no_freeze_wait"},
    {Trap::no_publish_gate, "no_publish_gate"},
    {Trap::frozen_stops_reducing, "frozen_stops_reducing"},
    {Trap::leave_drain_on_own_done, "leave_drain_on_own_done"},
    {Trap::complete_on_own_done, "complete_on_own_done"},
    {Trap::no_epoch_in_flag, "no_epoch_in_flag"},
    {Trap::install_before_all_ended, "install_before_all_ended"},
    {Trap::no_label_drop, "no_label_drop"},
    {Trap::no_resend_after_add, "no_resend_after_add"},
    {Trap::install_out_of_phase, "install_out_of_phase"},
    {Trap::no_owed_error, "no_owed_error"},
    {Trap::owed_is_a_flag, "owed_is_a_flag"},
    {Trap::read_log_while_draining, "read_log_while_draining"},
    {Trap::join_with_outstanding, "join_with_outstanding"},
    {Trap::join_does_not_break, "join_does_not_break"},
    {Trap::error_before_quiet, "error_before_quiet"},
    {Trap::reduce_before_all_published, "reduce_before_all_published"},
    {Trap::one_inline_line, "one_inline_line"},
    {Trap::cancel_before_decision, "cancel_before_decision"},
    {Trap::calls_not_compared, "calls_not_compared"},
    {Trap::launch_by_flags, "launch_by_flags"},
    {Trap::launch_after_break, "launch_after_break"},
    {Trap::freeze_is_break, "freeze_is_break"},
};
static_assert(std::size(kMutations) + 1 == static_cast<std::size_t>(Trap::kCount), "a trap is not tested");

class Mutants : public testing::TestWithParam<Mutation> {
 protected:
  ~Mutants() override { broken_trap = Trap::none; }
};

TEST_P(Mutants, AreCaught) {
  broken_trap = GetParam().trap;
  constexpr std::uint64_t kHistories = 10000;
  for (std::uint64_t seed = 1; seed <= kHistories; ++seed) {
    World world(Author(seed).write());
    const std::string violation = world.run();
    if (!violation.empty()) {
      RecordProperty("caught_by", violation);
      std::printf("history %llu: %s\n", static_cast<unsigned long long>(seed), violation.c_str());
      return;
    }
  }
  FAIL() << GetParam().name << " is not seen in " << kHistories << " histories";
}

INSTANTIATE_TEST_SUITE_P(Traps, Mutants, testing::ValuesIn(kMutations),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(WithoutMutation, AllIsWell) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    ASSERT_EQ(World(Author(seed).write()).run(), "") << seed;
  }
}

}  // namespace
}  // namespace ronde::agreement::testing_world
