// NameHistories: what negotiation has answered under each name, and how far a name is trusted to come like that again.
// Pure: the planner of buckets (bucket_planner.h) tells it each answer and asks.
//
// Changes. A bucket that is planned in vain costs messages and, in force, a break, which all names pay for. So a name
// whose descriptor changes is trusted less: from the third change on it needs 16, 32 ... 4096 equal answers, until it
// has been in force in an epoch that served long. Who trains one model after another under the same names has them all
// replayed, and a name that changes all the time costs less and less.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "types/memory_place.h"
#include "types/request.h"

namespace ronde::agreement {

/// One answer: when it was asked for at the latest, and answered, as positions in the log.
struct Round {
  std::uint64_t asked = UINT64_MAX;
  std::uint64_t answered = 0;
};

/// Of one name. A value, but for what the owners of names and buckets have noted at its end.
struct NameHistory {
  static constexpr std::uint32_t kEqualAnswers = 2;    ///< before a name is planned
  static constexpr std::uint32_t kFewChanges = 2;      ///< of its descriptor, after which it still is as soon
  static constexpr std::uint32_t kMostDoublings = 11;  ///< of the answers needed, however often it changed
  static constexpr std::uint32_t kMostOtherCalls = 8;  ///< of a planning name, after which it is planned no more
  static constexpr std::uint32_t kNoBucket = UINT32_MAX;
  using Rounds = std::array<Round, kEqualAnswers>;  ///< the last first

  /// The name was answered with EXEC. False: not with what it was answered with before.
  bool on_exec(const Descriptor& agreed, const MemoryPlaces& agreed_places, const Round& round);
  /// It was answered with ERROR.
  void on_error();
  /// Ranks made the same unnamed call for this name's place and for others.
  void on_other_calls();
  /// It was in force in an epoch that served long.
  void on_served_long() { changes = 0; }
  /// An epoch is over: the name has to show again that it comes well.
  void on_break() { since_break = 0; }
  /// It must come as often as a new name to be planned again.
  void begin_again() { same = 0; }

  bool has_changed_often() const { return changes > kFewChanges; }
  /// Equal answers before it is planned.
  std::uint32_t answers_needed() const;
  bool has_come_often() const { return !never && same >= answers_needed(); }

  Descriptor descriptor;
  MemoryPlaces places;
  bool known = false;
  bool never = false;             ///< to be planned: refused, or of calls that the ranks did not agree on
  bool alone = false;             ///< demoted: it shares no bucket
  std::uint32_t other_calls = 0;  ///< how often the ranks did not agree on the planning name
  std::uint32_t same = 0;         ///< answers in a row with this descriptor
  std::uint32_t changes = 0;
  std::uint32_t since_break = 0;  ///< good answers since the last break or error
  std::uint64_t answers = 0;      ///< of both kinds, ever
  std::uint64_t before_mark = 0;  ///< answers before it first came with its persistent plan's mark
  std::uint64_t order = 0;        ///< of its last EXEC among those of all names
  Rounds rounds;

  // ---- What others have noted here, so that one look-up finds it.

  const std::string* name = nullptr;  ///< as NameHistories keeps it
  std::string planning_name = {};     ///< of unnamed calls
  std::uint32_t turn = 0;             ///< of unnamed calls
  bool is_candidate = false;          ///< it waits to be put into a bucket
  bool is_persistent = false;         ///< a persistent plan refers to it
  std::uint32_t bucket = kNoBucket;   ///< that is planned with it and not retired

 private:
  void add(const Round& round);
};

class NameHistories {
 public:
  /// Of a name that was answered with EXEC just now, which its history is still to be told: NameHistory::on_exec(). A
  /// history stays where it is until its name is forgotten.
  NameHistory& answered(const std::string& name);
  /// All ranks have left an epoch.
  void on_break();
  /// Requires: nobody refers to it.
  void forget(const NameHistory& history) { histories_.erase(*history.name); }

  /// Null: nothing was answered under this name, or it is forgotten.
  NameHistory* find(const std::string& name);
  const NameHistory* find(const std::string& name) const;
  /// How often answered() was called: what is answered after this has a greater NameHistory::order.
  std::uint64_t order() const { return order_; }
  std::size_t size() const { return histories_.size(); }

  static constexpr std::size_t kNamesKept = 1 << 16;  ///< without a look at which of them may be forgotten

 private:
  void forget_names_that_came_once();

  std::unordered_map<std::string, NameHistory> histories_;
  std::uint64_t order_ = 0;
  std::size_t forget_at_ = kNamesKept;  ///< so many names are looked through for such as never come again
};

}  // namespace ronde::agreement
