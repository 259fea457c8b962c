// PlannedBuckets: the buckets that were made, and what becomes of each. A bucket is prepared by all ranks, is ready, in
// force in one epoch or several, and retired once its names are to be planned otherwise or nobody uses it.
//
// Nothing here is needed for safety: any bucket may be put in force at any position of the log, if it is in phase.
//
// In phase. The n-th instance of a bucket takes the next request of each member. These are of the same step only if all
// members have had equally many answers since they were last together: in force, in the round from which the bucket
// was planned, or in two steps in a row of which the bounds are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "agreement/name_histories.h"
#include "types/bucket.h"
#include "types/bucket_layout.h"

namespace ronde::agreement {

class PlannedBuckets {
 public:
  /// A bucket of these names, without a layout, which all ranks have yet to prepare. Its histories must outlive this.
  /// Requires: none of them is in a bucket.
  const Bucket& make(const std::vector<NameHistory*>& names);

  // ---- What happened.

  /// All ranks have made the bucket ready.
  void on_prepared(std::uint32_t id);
  /// The bucket will never be ready: its names are never planned again.
  void refuse(std::uint32_t id);
  /// These come into force.
  void on_in_force(const std::vector<std::uint32_t>& ids);
  /// The name was answered: the bucket that it is in may be in phase now, or rested.
  void on_answer(const NameHistory& history);
  /// The bucket of this name, if there is one, is not what it should be: its names are planned anew.
  void dissolve_of(const NameHistory& history);
  /// All ranks have left the epoch. `healthy`: it served long before.
  void on_epoch_over(bool healthy);
  /// Of an epoch in which the buckets `unused`, ascending, were in force and had no instance: those that were not used
  /// in it, and none of whose names was answered since the last call, are retired and their names may be forgotten.
  /// Persistent plans stay, and unnamed calls. `order`: NameHistories::order() now. Gives how many were used.
  std::size_t count_use(const std::vector<std::uint32_t>& unused, std::uint64_t order);
  /// What its backend has made of it.
  void place(std::uint32_t id, BucketLayout::Placed placed);

  // ---- What is so, and what to do.

  const Bucket& bucket(std::uint32_t id) const { return buckets_[id].bucket; }
  bool is_placed(std::uint32_t id) const { return buckets_[id].is_placed; }
  /// Whether this name lies in a bucket that is ready but not in force.
  bool waits_for_phase(const NameHistory& history) const;
  /// Buckets that are ready, in phase and not in force; of those that were in force before only such as have rested:
  /// each of their names has had so many good answers since the last break.
  std::vector<std::uint32_t> installable(std::uint32_t clean_rounds);
  /// How many buckets installable() looks at; for tests.
  std::size_t stirred() const { return stirred_.size(); }
  /// Buckets that are not retired.
  std::size_t live() const { return live_; }
  /// Buckets that will never be in force again, since the last call.
  std::vector<std::uint32_t> take_retired();

  /// A name whose bucket was retired.
  struct Released {
    NameHistory* history = nullptr;
    bool is_unused = false;  ///< it goes with its bucket, which nobody has used, and has not come since
  };
  /// Since the last call.
  std::vector<Released> take_released();

 private:
  enum class Life { preparing, ready, in_force, retiring, retired };

  struct Planned {
    Bucket bucket;
    std::vector<NameHistory*> members;
    std::vector<std::uint64_t> together;  ///< of each member the answers when all were last together
    Life life = Life::preparing;
    bool was_in_force = false;
    bool is_abandoned = false;  ///< retired since it was not used: its names are forgotten with it
    bool prepared = false;
    bool is_placed = false;
  };

  void dissolve(Planned& planned);
  void retire(Planned& planned);
  void set_life(Planned& planned, Life life);
  static bool may_be_abandoned(const Planned& planned);
  static bool in_phase(const Planned& planned);
  static bool came_in_steps(const Planned& planned);
  static void note_together(Planned& planned);

  std::deque<Planned> buckets_;      ///< by id
  std::set<std::uint32_t> stirred_;  ///< those in Life::ready that may be installable: none else has become so
  std::vector<std::uint32_t> retired_;
  std::vector<Released> released_;
  std::uint64_t counted_order_ = 0;  ///< as the last count_use() was told
  std::size_t live_ = 0;
};

}  // namespace ronde::agreement
