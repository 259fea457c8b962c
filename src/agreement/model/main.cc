// An exhaustive model of unnamed calls (docs/agreement.md, "Unnamed calls"): every state that two or three ranks and
// the coordinator can come to, within the bounds of a scenario.
//
// Modelled: numbers (barriers before, calls since) taken as the program makes its calls; programs that differ by rank
// in waits, descriptors, hints, refusals and barriers; a hint that is equal, other on one rank, shared by several calls
// or planned for another descriptor; places taken in turn (bursts), the queue behind a place; buckets of one or two
// places with the numbers beside the flag, by parity, direct and inline; void instances; INSTALL and ADD at every
// moment at which the coordinator may log them, in phase where no timer helps; breaks at every moment, the decision,
// the drain, what is sent again; requests, answers, mismatches, limits, labels, owed errors; refusals; barriers and the
// calls beyond them.
//
// Left out: how the planner finds buckets and bursts (the scenario says them; any moment is allowed), what a hint is
// made of, hashes of numbers (they are compared as they are), memory orders and words that are seen late or in another
// order (each store is one step; the model of named calls, from which the protocol was written, had them), words of an
// epoch that all have left, the transfer of what is agreed by messages (an answer that is read is done), join, leave,
// deaths, stopped ranks, retirement, several groups, backward calls.
//
// Checked in every state: a call succeeds only if every rank makes it, with this number and descriptor; what is agreed
// and what is reduced is the same call on all ranks; nobody touches what is not published for this instance or whose
// owner was told its end; ranks judge an instance alike, void or not; ranks that make equal calls under equal hints
// have no void instance; the coordinator never holds a call twice. At the end: every call has ended, on all ranks
// alike, well where all ranks make the same; what is optional (INSTALL, breaks) need not happen for that, and timers
// help only where the scenario says so.
//
// RONDE_MODEL=long looks at the larger scenarios too, for about a minute.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "search.h"

namespace ronde::agreement::calls_model {
namespace {

constexpr std::uint64_t kMostStates = 20'000'000;

std::vector<Scenario> scenarios() {
  return {
      {.name = "break", .programs = {"a0 a0", "a0 a0"}, .buckets = {"0"}, .epochs = 2, .breaks = 1, .has_timers = true},
      {.name = "any_wait", .programs = {"a0 a0", "a0 a0"}, .buckets = {"0"}, .waits = 2, .has_timers = true},
      {.name = "inline_lines",
       .programs = {"a0 a0 a0", "a0 a0 a0"},
       .buckets = {"0"},
       .has_timers = true,
       .inlined = 1},
      {.name = "crossed_hints",
       .programs = {"a0 a1", "a1 a0"},
       .buckets = {"0", "1"},
       .epochs = 2,
       .breaks = 1,
       .has_timers = true},
      {.name = "crossed_hints_fused",
       .programs = {"a0 a1", "a1 a0"},
       .buckets = {"01"},
       .epochs = 2,
       .breaks = 1,
       .has_timers = true},
      {.name = "burst_one_late_rank", .programs = {"a0 a0 a0", "a1 a0 a0"}, .buckets = {"00"}, .has_timers = true},
      {.name = "hint_of_another_shape",
       .programs = {"b0 a0", "b0 a0"},
       .buckets = {"0"},
       .breaks = 1,
       .has_timers = true},
      {.name = "other_shape",
       .programs = {"a0 b0", "a0 a0"},
       .buckets = {"0"},
       .epochs = 2,
       .breaks = 1,
       .has_timers = true},
      {.name = "refused", .programs = {"r0 a0", "a0 a0"}, .buckets = {"0"}, .breaks = 1, .has_timers = true},
      {.name = "refused_by_several", .programs = {"r- r- a-", "a- r- a-"}, .buckets = {"0"}, .has_timers = true},
      {.name = "barrier", .programs = {"a0 a0 B a0", "a0 B a0"}, .buckets = {"0"}, .has_timers = true},
      {.name = "unwaited_barrier", .programs = {"a- A a0", "a- A a0"}, .buckets = {"0"}, .has_timers = true},
      {.name = "burst_without_timers",
       .programs = {"a0 a0 w0 w1 a0 a0", "a0 a0 w1 w0 a0 a0"},
       .buckets = {"00"},
       .epochs = 2,
       .breaks = 1,
       .never_void = true},
      {.name = "two_hints_without_timers",
       .programs = {"a0 a1 w1 w0 a0 a1", "a0 a1 w0 w1 a0 a1"},
       .buckets = {"01"},
       .breaks = 1,
       .never_void = true},
      {.name = "places_apart_without_timers",
       .programs = {"a0 a0", "a0 a0"},
       .buckets = {"0", "0"},
       .epochs = 2,
       .breaks = 1,
       .never_void = true},
      {.name = "barrier_without_timers",
       .programs = {"a0 B a0", "a0 B a0"},
       .buckets = {"0"},
       .breaks = 1,
       .never_void = true},
      {.name = "added", .programs = {"a1", "a1"}, .buckets = {"0", "1"}, .breaks = 1, .has_timers = true, .added = 2},
      {.name = "limits", .programs = {"a0 a0", "a0 a0"}, .buckets = {"0"}, .has_timers = true, .has_limits = true},
      {.name = "limits_and_barrier", .programs = {"a- B a-", "a- B a-"}, .has_timers = true, .has_limits = true},
      {.name = "three_ranks", .programs = {"a0", "a0", "a0"}, .buckets = {"0"}, .breaks = 1, .has_timers = true},
      {.name = "three_ranks_other_hint", .programs = {"a0", "a1", "a0"}, .buckets = {"0"}, .has_timers = true},
      {.name = "three_ranks_other_shape", .programs = {"a0", "b0", "a0"}, .buckets = {"0"}, .has_timers = true},
      {.name = "three_ranks_refused", .programs = {"a0", "r0", "a0"}, .buckets = {"0"}, .has_timers = true},
      {.name = "three_ranks_beyond_a_barrier", .programs = {"a- a- B", "a- a- B", "a- B"}, .has_timers = true},
  };
}

std::vector<Scenario> long_scenarios() {
  return {
      {.name = "long_break",
       .programs = {"a0 a0 a0", "a0 a0 a0"},
       .buckets = {"0"},
       .epochs = 2,
       .breaks = 1,
       .has_timers = true},
      {.name = "long_two_breaks",
       .programs = {"a0 a0 a0", "a0 a0 a0"},
       .buckets = {"0"},
       .epochs = 3,
       .breaks = 2,
       .has_timers = true},
      {.name = "long_any_wait",
       .programs = {"a0 a0", "a0 a0"},
       .buckets = {"0"},
       .epochs = 2,
       .breaks = 1,
       .waits = 2,
       .has_timers = true},
      {.name = "long_inline_lines",
       .programs = {"a0 a0 a0", "a0 a0 a0"},
       .buckets = {"0"},
       .epochs = 2,
       .breaks = 1,
       .has_timers = true,
       .inlined = 1},
      {.name = "long_burst_one_late_rank",
       .programs = {"a0 a0 a0", "a1 a0 a0"},
       .buckets = {"0", "0"},
       .breaks = 1,
       .has_timers = true},
      {.name = "long_added_without_timers",
       .programs = {"a0 a1", "a0 a1"},
       .buckets = {"0", "1"},
       .epochs = 2,
       .breaks = 1,
       .never_void = true,
       .added = 2},
      {.name = "long_added",
       .programs = {"a0 a1", "a0 a1"},
       .buckets = {"0", "1"},
       .breaks = 1,
       .has_timers = true,
       .added = 2},
  };
}

std::vector<Scenario> long_scenarios_with_errors_and_barriers() {
  return {
      {.name = "long_refused", .programs = {"a0 r0 a0", "a0 a0 a0"}, .buckets = {"0"}, .breaks = 1, .has_timers = true},
      {.name = "long_refused_by_several", .programs = {"r0 r0 a0", "a0 r0 a0"}, .buckets = {"0"}, .has_timers = true},
      {.name = "long_refused_without_timers",
       .programs = {"a0 r0 a0", "a0 r0 a0"},
       .buckets = {"0"},
       .breaks = 1,
       .never_void = true},
      {.name = "long_barrier",
       .programs = {"a0 a0 B a0", "a0 B a0"},
       .buckets = {"0"},
       .epochs = 2,
       .breaks = 1,
       .has_timers = true},
      {.name = "long_unwaited_barriers",
       .programs = {"a0 A a0 A", "A a0 A"},
       .buckets = {"0"},
       .breaks = 1,
       .has_timers = true},
      {.name = "long_limits_refused",
       .programs = {"a0 r0 a0", "a0 a0 a0"},
       .buckets = {"0"},
       .has_timers = true,
       .has_limits = true},
      {.name = "long_limits_and_barrier",
       .programs = {"a0 a0 B", "a0 B"},
       .buckets = {"0"},
       .has_timers = true,
       .has_limits = true},
  };
}

std::vector<Scenario> long_scenarios_of_three_ranks() {
  return {
      {.name = "long_three_ranks_break",
       .programs = {"a0 a0", "a0 a0", "a0 a0"},
       .buckets = {"0"},
       .breaks = 1,
       .has_timers = true},
      {.name = "long_three_ranks_added",
       .programs = {"a0", "a0", "a1"},
       .buckets = {"0", "1"},
       .epochs = 2,
       .breaks = 1,
       .has_timers = true,
       .added = 2},
      {.name = "long_three_ranks_inline",
       .programs = {"a0 a0", "a0 a0", "a0 a0"},
       .buckets = {"0"},
       .has_timers = true,
       .inlined = 1},
      {.name = "long_three_ranks", .programs = {"a0 a0", "a0 a0", "a0 a0"}, .buckets = {"0"}, .has_timers = true},
      {.name = "long_three_ranks_crossed",
       .programs = {"a0 a1", "a1 a0", "a0 a1"},
       .buckets = {"0", "1"},
       .has_timers = true},
      {.name = "long_three_ranks_barrier", .programs = {"a0 B", "a0 B", "B"}, .buckets = {"0"}, .has_timers = true},
  };
}

bool is_long() {
  const char* asked = std::getenv("RONDE_MODEL");
  return asked != nullptr && std::string_view(asked) == "long";
}

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all = scenarios();
  if (is_long()) {
    for (const auto& more :
         {long_scenarios(), long_scenarios_with_errors_and_barriers(), long_scenarios_of_three_ranks()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
  }
  return all;
}

class CallsModel : public testing::TestWithParam<Scenario> {};

TEST_P(CallsModel, HasNoViolation) {
  const Study study(GetParam(), Fault::none);
  const Outcome outcome = Search(study).run(kMostStates);
  std::printf("%s: %llu states\n", GetParam().name, static_cast<unsigned long long>(outcome.states));
  EXPECT_EQ(outcome.violation, "") << testing::PrintToString(outcome.history);
  EXPECT_TRUE(outcome.is_exhausted) << "bounded at " << outcome.states << " states";
}

INSTANTIATE_TEST_SUITE_P(Scenarios, CallsModel, testing::ValuesIn(all_scenarios()),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

struct Mutation {
  Fault fault;
  const char* name;
  const char* scenario;  ///< of scenarios(): that it is caught there, and the protocol itself is not
};

constexpr Mutation kMutations[] = {
    {Fault::numbers_not_compared, "numbers_not_compared", "crossed_hints"},
    {Fault::one_rank_does_not_compare, "one_rank_does_not_compare", "crossed_hints"},
    {Fault::not_compared_in_a_break, "not_compared_in_a_break", "crossed_hints"},
    {Fault::one_word_for_both_parities, "one_word_for_both_parities", "inline_lines"},
    {Fault::word_behind_its_flag, "word_behind_its_flag", "crossed_hints"},
    {Fault::void_does_not_break, "void_does_not_break", "crossed_hints"},
    {Fault::void_calls_not_sent, "void_calls_not_sent", "crossed_hints"},
    {Fault::queue_not_sent_in_a_break, "queue_not_sent_in_a_break", "break"},
    {Fault::number_free_after_wait, "number_free_after_wait", "any_wait"},
    {Fault::refused_call_not_counted, "refused_call_not_counted", "refused"},
    {Fault::refusal_not_told, "refusal_not_told", "refused"},
    {Fault::refusal_not_owed, "refusal_not_owed", "refused"},
    {Fault::count_goes_on_at_barrier, "count_goes_on_at_barrier", "barrier"},
    {Fault::one_rank_counts_on_at_barrier, "one_rank_counts_on_at_barrier", "barrier"},
    {Fault::hint_is_the_name, "hint_is_the_name", "crossed_hints"},
    {Fault::requests_without_number, "requests_without_number", "crossed_hints"},
    {Fault::label_of_hint_ignored, "label_of_hint_ignored", "break"},
    {Fault::other_hints_forgotten, "other_hints_forgotten", "three_ranks_other_hint"},
    {Fault::no_resend_after_add, "no_resend_after_add", "added"},
    {Fault::moved_in_other_order, "moved_in_other_order", "burst_without_timers"},
    {Fault::installed_within_a_burst, "installed_within_a_burst", "burst_without_timers"},
    {Fault::beyond_barrier_told_to_holders, "beyond_barrier_told_to_holders", "three_ranks_beyond_a_barrier"},
    {Fault::descriptors_not_compared, "descriptors_not_compared", "other_shape"},
};
static_assert(std::size(kMutations) + 1 == static_cast<std::size_t>(Fault::kCount), "a fault is not tested");

class CallsModelMutants : public testing::TestWithParam<Mutation> {};

TEST_P(CallsModelMutants, AreCaught) {
  for (const Scenario& scenario : scenarios()) {
    if (std::string_view(scenario.name) != GetParam().scenario) {
      continue;
    }
    const Study study(scenario, GetParam().fault);
    const Outcome outcome = Search(study).run(kMostStates);
    std::printf("%s: %llu states, %zu steps: %s\n", GetParam().name, static_cast<unsigned long long>(outcome.states),
                outcome.history.size(), outcome.violation.c_str());
    EXPECT_NE(outcome.violation, "");
    EXPECT_EQ(outcome.violation.find("bound of the model"), std::string::npos);
    return;
  }
  FAIL() << "no scenario " << GetParam().scenario;
}

INSTANTIATE_TEST_SUITE_P(Faults, CallsModelMutants, testing::ValuesIn(kMutations),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace ronde::agreement::calls_model
