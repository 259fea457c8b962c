// That the histories see what they are there for: links and backends are broken on purpose, in one way at a time, and
// some history must end in a violation.
#include <gtest/gtest.h>

#include <cstdio>
#include <iterator>
#include <ostream>
#include <string>

#include "base/log.h"
#include "engine/histories/testing/world.h"

namespace ronde::engine::histories {
namespace {

struct NamedFault {
  Fault fault;
  const char* name;
};
void PrintTo(const NamedFault& fault, std::ostream* out) { *out << fault.name; }

constexpr NamedFault kFaults[] = {
    {Fault::frozen_note_lost, "frozen_note_lost"},
    {Fault::quiet_notes_lost, "quiet_notes_lost"},
    {Fault::answer_lost, "answer_lost"},
    {Fault::stale_payload, "stale_payload"},
    {Fault::one_rank_left_out, "one_rank_left_out"},
    {Fault::note_overtakes_data, "note_overtakes_data"},
    {Fault::lent_read_too_late, "lent_read_too_late"},
    {Fault::plan_done_too_early, "plan_done_too_early"},
    {Fault::instance_done_too_early, "instance_done_too_early"},
    {Fault::calls_not_compared, "calls_not_compared"},
    {Fault::decided_alone, "decided_alone"},
    {Fault::not_announced, "not_announced"},
};
static_assert(std::size(kFaults) + 1 == static_cast<std::size_t>(Fault::kCount), "a fault is not tested");

class Faults : public testing::TestWithParam<NamedFault> {
 protected:
  Faults() { set_log_level(LogLevel::off); }
  ~Faults() override { set_log_level(LogLevel::warning); }
};

TEST_P(Faults, AreSeen) {
  constexpr std::uint64_t kHistories = 20'000;
  for (std::uint64_t seed = 1; seed <= kHistories; ++seed) {
    const std::string violation = World(write_history(seed), GetParam().fault, static_cast<int>(seed % 7)).run();
    if (!violation.empty()) {
      RecordProperty("seen_by", violation);
      std::printf("history %llu: %s\n", static_cast<unsigned long long>(seed), violation.c_str());
      return;
    }
  }
  FAIL() << GetParam().name << " is not seen in " << kHistories << " histories";
}

INSTANTIATE_TEST_SUITE_P(OfLinksAndBackends, Faults, testing::ValuesIn(kFaults),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace ronde::engine::histories
