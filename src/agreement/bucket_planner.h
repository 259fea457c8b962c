// Bucket planner: what to replay. It sees every answer of negotiation and makes buckets of names (docs/agreement.md,
// "Planning"). Pure: the coordinator tells it what happened and asks.
//
// Each part of that is elsewhere: what is known of each name and when it is trusted (name_histories.h), what belongs to
// the program's persistent plans (persistent_plans.h), which names share a bucket (bucket_packing.h), and what becomes
// of the buckets (planned_buckets.h). Here is which names wait to be put into a bucket, and for what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "agreement/bucket_packing.h"
#include "agreement/name_histories.h"
#include "agreement/persistent_plans.h"
#include "agreement/planned_buckets.h"
#include "control/messages.h"
#include "types/bucket.h"
#include "types/bucket_layout.h"

namespace ronde::agreement {

class BucketPlanner {
 public:
  /// `layout` must outlive this; null: all tensors are of one class.
  explicit BucketPlanner(const control::SettingsEntry& settings, const BucketLayout* layout = nullptr)
      : packing_(settings, layout) {}

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
  void on_in_force(const std::vector<std::uint32_t>& ids) { buckets_.on_in_force(ids); }
  /// All ranks have left the epoch. `healthy`: it served long before.
  void on_epoch_over(bool healthy);

  /// Before on_epoch_over(), of an epoch in which these buckets in force, ascending, had no instance: what was not used
  /// in it, nor answered since the last time, is retired and forgotten: it must come as often as a new name to be
  /// planned again. Persistent plans stay, and unnamed calls. Gives how many were used.
  std::size_t count_use(const std::vector<std::uint32_t>& unused);
  /// Buckets that are not retired.
  std::size_t live() const { return buckets_.live(); }

  // ---- What to do.

  /// New buckets, without a layout; each is to be prepared or refused. `quiet`: no request is held just now,
  /// so a step is likely over and what belongs together has been seen.
  std::vector<Bucket> propose(bool quiet);
  /// Prepared buckets that are in phase and not in force, whose names have had so many good answers since the last
  /// break.
  std::vector<std::uint32_t> installable(std::uint32_t clean_rounds) { return buckets_.installable(clean_rounds); }
  /// How many buckets installable() looks at; for tests.
  std::size_t stirred() const { return buckets_.stirred(); }
  /// Buckets that will never be in force again, since the last call.
  std::vector<std::uint32_t> take_retired() { return buckets_.take_retired(); }

  const Bucket& bucket(std::uint32_t id) const { return buckets_.bucket(id); }
  /// What its backend has made of it.
  void place(std::uint32_t id, BucketLayout::Placed placed) { buckets_.place(id, std::move(placed)); }
  bool is_placed(std::uint32_t id) const { return buckets_.is_placed(id); }
  std::size_t names_known() const { return names_.size(); }
  /// Whether this name lies in a bucket that is ready but not in force: an answer may have brought it into phase.
  bool waits_for_phase(const std::string& name) const;

 private:
  static bool may_be_planned(const NameHistory& history);
  void consider(NameHistory& history);
  void consider_released();
  std::vector<NameHistory*> take_ready(bool quiet);
  void pack(std::vector<NameHistory*> names, bool are_together, std::vector<Bucket>& made);

  NameHistories names_;
  PersistentPlans persistent_;
  BucketPacking packing_;
  PlannedBuckets buckets_;
  std::vector<NameHistory*> candidates_;  ///< names that may be planned, and are in no bucket yet
};

}  // namespace ronde::agreement
