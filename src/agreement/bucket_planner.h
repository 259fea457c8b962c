// Bucket planner: what to replay. It sees every answer of negotiation, keeps for each name what is needed to decide,
// and makes buckets of names (docs/agreement.md, "Planning"). Pure: the coordinator tells it what happened and asks.
//
// Nothing here is needed for safety: any bucket may be put in force at any position of the log, if it is in phase.
//
// Together. Two names may be fused if a program does not wait for one before it requests the other. A request says how
// many log entries its rank had read (position). So if `asked` is the largest position of a name's requests and
// `answered` that of its answer, then two names were pending together on every rank if and only if asked(a) <
// answered(b) and asked(b) < answered(a): their intervals overlap. Intervals that overlap in pairs have a point in
// common, so a set is together if max(asked) < min(answered). No order of submission is assumed, so it may differ per
// rank and per step.
//
// Changes. A bucket that is planned in vain costs messages and, in force, a break, which all names pay for. So a name
// whose descriptor changes is trusted less: from the third change on it needs 16, 32 ... 4096 equal answers, until it
// has been in force in an epoch that served long. Who trains one model after another under the same names has them all
// replayed, and a name that changes all the time costs less and less.
//
// In phase. The n-th instance of a bucket takes the next request of each member. These are of the same step only if all
// members have had equally many answers since they were last together: in force, in the round from which the bucket
// was planned, or in two steps in a row of which the bounds are known.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/messages.h"
#include "types/bucket.h"
#include "types/bucket_layout.h"

namespace ronde::agreement {

class BucketPlanner {
 public:
  /// `layout` must outlive this; null: all tensors are of one class.
  explicit BucketPlanner(control::SettingsEntry settings, const BucketLayout* layout = nullptr)
      : settings_(settings), layout_(layout) {}

  // ---- What happened.

  /// A name was answered with EXEC. `places`: of its tensor on the ranks.
  /// `planning_name`, `turn`: of an unnamed call, whose place is planned under `name` (call_bursts.h).
  void on_exec(const std::string& name, const Descriptor& descriptor, const MemoryPlaces& places, std::uint64_t asked,
               std::uint64_t answered, const std::string& planning_name = {}, std::uint32_t turn = 0);
  /// Ranks made the same unnamed call for this place and for others.
  void on_other_calls(const std::string& name);
  /// A name was answered with ERROR.
  void on_error(const std::string& name);
  /// The others of its bucket waited in vain for this name: it gets a bucket of its own, for good.
  void demote(const std::string& name);
  /// The name does not come as it did: its bucket goes, and it is planned again once it has come twice.
  void plan_anew(const std::string& name);
  /// All ranks have made the bucket ready.
  void on_prepared(std::uint32_t id);
  /// A rank has no memory for it: its names stay in negotiation.
  void refuse(std::uint32_t id);
  /// INSTALL or ADD of these was logged.
  void on_in_force(const std::vector<std::uint32_t>& ids);
  /// All ranks have left the epoch. `healthy`: it served long before.
  void on_epoch_over(bool healthy);

  /// Before on_epoch_over(), of an epoch in which these buckets in force, ascending, had no instance: what was not used
  /// in it, nor answered since the last time, is retired and forgotten: it must come as often as a new name to be
  /// planned again. Persistent plans stay, and unnamed calls. Gives how many were used.
  std::size_t count_use(const std::vector<std::uint32_t>& unused);
  /// Buckets that are not retired.
  std::size_t live() const { return live_; }

  // ---- What to do.

  /// New buckets, without a layout; each is to be prepared or refused. `quiet`: no request is held just now,
  /// so a step is likely over and what belongs together has been seen.
  std::vector<Bucket> propose(bool quiet);
  /// Prepared buckets that are in phase and not in force, whose names have had so many good answers since the last
  /// break.
  std::vector<std::uint32_t> installable(std::uint32_t clean_rounds);
  /// How many buckets installable() looks at; for tests.
  std::size_t stirred() const { return stirred_.size(); }
  /// Buckets that will never be in force again, since the last call.
  std::vector<std::uint32_t> take_retired();

  const Bucket& bucket(std::uint32_t id) const { return buckets_[id].bucket; }
  /// What its backend has made of it.
  void place(std::uint32_t id, BucketLayout::Placed placed);
  bool is_placed(std::uint32_t id) const { return buckets_[id].is_placed; }
  std::size_t names_known() const { return names_.size(); }
  /// Whether this name lies in a bucket that is ready but not in force: an answer may have brought it into phase.
  bool waits_for_phase(const std::string& name) const;

  static constexpr std::uint32_t kEqualAnswers = 2;    ///< before a name is planned
  static constexpr std::uint32_t kFewChanges = 2;      ///< of its descriptor, after which it still is as soon
  static constexpr std::uint32_t kMostDoublings = 11;  ///< of the answers needed, however often it changed
  static constexpr std::size_t kNamesKept = 1 << 16;   ///< without a look at which of them may be forgotten
  static constexpr std::uint32_t kMostOtherCalls = 8;  ///< of a planning name, after which it is planned no more
  static constexpr std::uint32_t kPatience =
      2;  ///< equal answers beyond these after which a name is planned though requests are held

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  /// One answer: when it was asked for at the latest, and answered, as positions in the log.
  struct Round {
    std::uint64_t asked = UINT64_MAX;
    std::uint64_t answered = 0;
  };

  struct History {
    Descriptor descriptor;
    MemoryPlaces places;
    bool known = false;
    bool never = false;  ///< refused
    bool alone = false;  ///< demoted
    bool is_candidate = false;
    std::string planning_name;      ///< of unnamed calls
    std::uint32_t turn = 0;         ///< of unnamed calls
    std::uint32_t other_calls = 0;  ///< how often the ranks did not agree on the planning name
    bool is_persistent = false;     ///< a persistent plan refers to it
    std::uint32_t same = 0;         ///< answers in a row with this descriptor
    std::uint32_t changes = 0;
    std::uint32_t since_break = 0;            ///< good answers since the last break or error
    std::uint64_t answers = 0;                ///< of both kinds, ever
    std::uint64_t before_mark = 0;            ///< answers before it first came with its persistent plan's mark
    std::uint64_t order = 0;                  ///< of its last answer among all
    std::array<Round, kEqualAnswers> rounds;  ///< the last first
    std::uint32_t bucket = kNone;
  };

  enum class Life { preparing, ready, in_force, retiring, retired };

  struct Planned {
    Bucket bucket;
    std::vector<History*> members;
    std::vector<std::uint64_t> together;  ///< of each member the answers when all were last together
    Life life = Life::preparing;
    bool was_in_force = false;
    bool is_abandoned = false;  ///< retired since it was not used: its names are forgotten with it
    bool prepared = false;
    bool is_placed = false;
  };

  struct Persistent {
    std::uint32_t size = 0;
    std::vector<const std::string*> names;
  };

  /// A bucket being filled.
  struct Draft {
    std::vector<const std::string*> names;
    std::uint64_t bytes = 0;
    std::array<Round, kEqualAnswers> common;  ///< what the intervals of all have in common
  };

  static std::uint32_t answers_needed(const History& history);
  int fusion_class(const History& history) const {
    return layout_ == nullptr ? 0 : layout_->fusion_class(history.places);
  }
  bool may_be_planned(const History& history) const;
  bool is_small(const History& history) const;
  void consider(const std::string& name, History& history);
  void dissolve(std::uint32_t id);
  void retire(Planned& planned);
  void set_life(Planned& planned, Life life);
  void stir(const History& history);
  bool may_be_abandoned(const Planned& planned) const;
  bool in_phase(const Planned& planned) const;
  static bool came_in_steps(const Planned& planned);
  static void note_together(Planned& planned);
  std::vector<std::uint32_t> pack(const std::vector<const std::string*>& names, bool declared_together);
  std::uint32_t make_bucket(const std::vector<const std::string*>& names);
  void propose_persistent(std::vector<std::uint32_t>& made);
  void forget_names_that_came_once();

  control::SettingsEntry settings_;
  const BucketLayout* layout_;
  std::unordered_map<std::string, History> names_;
  std::deque<Planned> buckets_;      ///< by id
  std::set<std::uint32_t> stirred_;  ///< those in Life::ready that may be installable: none else has become so
  std::vector<const std::string*> candidates_;
  std::unordered_map<std::uint64_t, Persistent> persistent_;
  std::vector<std::uint64_t> complete_;  ///< persistent plans of which every name has been agreed
  std::vector<std::uint32_t> retired_;
  std::uint64_t orders_ = 0;
  std::uint64_t counted_order_ = 0;  ///< orders_ at the last count_use()
  std::size_t live_ = 0;
  std::size_t forget_at_ = kNamesKept;  ///< so many names are looked through for such as never come again
};

}  // namespace ronde::agreement
