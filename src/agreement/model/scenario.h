// What the model of unnamed calls is given: programs, buckets, bounds, and a rule that is broken.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ronde::agreement::calls_model {

using Byte = std::uint8_t;

constexpr int kRanks = 3;
constexpr int kOps = 8;  ///< words of a program
constexpr int kBuckets = 2;
constexpr int kPlaces = 2;
constexpr int kHints = 3;
constexpr Byte kNoHint = kHints;
/// Numbers of calls: six in each count, three counts. Behind them the names of two barriers.
constexpr int kCallsInCount = 6;
constexpr int kFirstBarrier = 3 * kCallsInCount;
constexpr int kNumbers = kFirstBarrier + 2;

template <typename T, int rows, int columns>
using Grid = std::array<std::array<T, columns>, rows>;

/// One rule that is broken; none: the protocol as it is.
enum class Fault : std::int32_t {
  none,
  numbers_not_compared,
  one_rank_does_not_compare,
  not_compared_in_a_break,
  one_word_for_both_parities,
  word_behind_its_flag,
  void_does_not_break,
  void_calls_not_sent,
  queue_not_sent_in_a_break,
  number_free_after_wait,
  refused_call_not_counted,
  refusal_not_told,
  refusal_not_owed,
  count_goes_on_at_barrier,
  one_rank_counts_on_at_barrier,
  hint_is_the_name,
  requests_without_number,
  label_of_hint_ignored,
  other_hints_forgotten,
  no_resend_after_add,
  moved_in_other_order,
  installed_within_a_burst,
  beyond_barrier_told_to_holders,
  descriptors_not_compared,
  kCount,
};

/// A program is words: "a0" a call with descriptor a under hint 0, "b-" one with b and no hint, "r0" one that its own
/// rank refuses, "B" a barrier that the program waits for, "A" one that it does not, "w2" a wait for what word 2 began.
struct Scenario {
  const char* name;
  std::vector<std::string> programs = {};  ///< by rank
  std::vector<std::string> buckets = {};   ///< of each the hints of its places; they hold calls of descriptor a
  int epochs = 1;                          ///< INSTALL entries at most
  int breaks = 0;                          ///< without a reason, on any rank
  int waits = 0;                           ///< for any call at any time, on any rank, beside those of the programs
  bool has_timers = false;                 ///< a request that waits in a bucket may break at any time
  bool has_limits = false;                 ///< the coordinator may give up a call that not all have requested
  bool never_void = false;  ///< ranks that make the same calls under the same hints need no void instance
  int added = 0;            ///< mask of the buckets that come into force by ADD, the others by INSTALL
  int inlined = 0;          ///< mask of the buckets whose data lies beside the flag
};

struct Op {
  enum class Kind : Byte { call, refused, barrier, wait };
  Kind kind = Kind::call;
  bool blocks = false;
  Byte descriptor = 0;
  Byte hint = kNoHint;
  Byte target = 0;  ///< of a wait
  Byte meets = 0;   ///< what it may meet on other ranks: (barriers before, calls since), or the barrier's own
};

/// A scenario as the model looks at it.
struct Study {
  Scenario scenario;
  Fault fault = Fault::none;
  int ranks = 0;
  std::vector<std::vector<Op>> programs;
  int all_buckets = 0;
  std::array<int, kBuckets> places{};
  Grid<Byte, kBuckets, kPlaces> hint_of{};
  /// By hint: its places in their turns, as bucket * kPlaces + place.
  std::array<std::vector<Byte>, kHints> turns;
  std::array<bool, kNumbers> must_succeed{};

  Study(const Scenario& given, Fault broken) : scenario(given), fault(broken) {
    ranks = static_cast<int>(given.programs.size());
    for (const std::string& text : given.programs) {
      programs.push_back(parse(text));
    }
    for (std::size_t b = 0; b < given.buckets.size(); ++b) {
      all_buckets |= 1 << b;
      places[b] = static_cast<int>(given.buckets[b].size());
      for (std::size_t p = 0; p < given.buckets[b].size(); ++p) {
        hint_of[b][p] = static_cast<Byte>(given.buckets[b][p] - '0');
        turns[hint_of[b][p]].push_back(static_cast<Byte>(b * kPlaces + p));
      }
    }
    for (int meets = 0; meets < kNumbers; ++meets) {
      must_succeed[static_cast<std::size_t>(meets)] = is_made_by_all(meets);
    }
  }

  bool is_inlined(int bucket) const { return (scenario.inlined >> bucket & 1) != 0; }
  int installed() const { return all_buckets & ~scenario.added; }
  bool is_planned(Byte hint, int buckets) const {
    return hint != kNoHint && !turns[hint].empty() && (buckets >> (turns[hint].front() / kPlaces) & 1) != 0;
  }

 private:
  static std::vector<Op> parse(const std::string& text) {
    std::vector<Op> ops;
    Byte barriers = 0;
    Byte calls = 0;
    for (std::size_t at = 0; at < text.size(); at += 3) {
      Op op;
      const char letter = text[at];
      if (letter == 'B' || letter == 'A') {
        op = {Op::Kind::barrier, letter == 'B'};
        op.meets = static_cast<Byte>(kFirstBarrier + barriers++);
        calls = 0;
        --at;  // its word has one letter
      } else if (letter == 'w') {
        op.kind = Op::Kind::wait;
        op.target = static_cast<Byte>(text[at + 1] - '0');
      } else {
        op.kind = letter == 'r' ? Op::Kind::refused : Op::Kind::call;
        op.descriptor = letter == 'b' ? 1 : 0;
        op.hint = text[at + 1] == '-' ? kNoHint : static_cast<Byte>(text[at + 1] - '0');
        op.meets = static_cast<Byte>(barriers * kCallsInCount + calls++);
      }
      ops.push_back(op);
    }
    return ops;
  }

  bool is_made_by_all(int meets) const {
    int same = 0;
    const Op* first = nullptr;
    for (const std::vector<Op>& program : programs) {
      for (const Op& op : program) {
        if (op.kind == Op::Kind::wait || op.kind == Op::Kind::refused || op.meets != meets) {
          continue;
        }
        first = first == nullptr ? &op : first;
        same += op.descriptor == first->descriptor ? 1 : 0;
      }
    }
    return same == ranks;
  }
};

}  // namespace ronde::agreement::calls_model
