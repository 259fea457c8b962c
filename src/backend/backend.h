// Backend: executes what a group has agreed on with one library: plans, one at a time, and persistent collectives,
// which replay repeats without a message.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "types/bucket_layout.h"
#include "types/operation.h"
#include "types/persistent_collective.h"
#include "types/plan.h"
#include "types/thresholds.h"

namespace ronde::backend {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Ok if this backend can execute the plan, else NOT_IMPLEMENTED with the reason. The same on every rank.
  virtual Status supports(const Plan& plan) const = 0;
  /// Every rank must launch all that this backend does in one order, plans and instances of buckets together: then no
  /// instance begins but by the log (docs/decisions/0021-ordered-backends.md). The same on every rank, always.
  virtual bool is_ordered() const { return false; }
  /// Begins the plan. Plans of one backend are launched and finished one at a time, in the same order on every rank.
  /// `plan` must outlive the operation. An error: this rank cannot begin it, and has touched nothing. The others may
  /// have begun by then, so the group ends on all ranks.
  virtual Result<std::unique_ptr<Operation>> launch(const Plan& plan) = 0;
  /// What all ranks begin with, as the first of them has it; the log tells of other rows. Any thread.
  virtual Thresholds first_thresholds() const = 0;
  /// For the plans launched from now on. Every rank calls it between the same two plans.
  virtual void set_thresholds(const Thresholds&) {}
  /// The row of a table that these thresholds are here, as RONDE_TABLE takes it, with the end of its line; empty: there
  /// is none. Any thread.
  virtual std::string table_row(const Thresholds&) const { return {}; }

  // ---- Replay

  /// Where buckets lie; null if nothing can be replayed. Asked on the coordinator's rank only.
  virtual BucketLayout* layout() = 0;
  /// This rank's part of a bucket, which must be destroyed before the backend. `thresholds`: the row in force where the
  /// bucket was agreed. Every rank prepares the same buckets in the same order, and none publishes an instance before
  /// all have. An error: this rank cannot take part, and the bucket comes to nothing on all.
  virtual Result<std::unique_ptr<PersistentCollective>> prepare(const Bucket& bucket, const Thresholds& thresholds) = 0;
  /// On every rank between two epochs, when nothing is under way of any bucket. `thresholds`: the row in force.
  virtual void begin_epoch(const Thresholds& thresholds) = 0;
  /// Where the request's tensor lies in memory that peers reach, if it is to be reduced there. Any thread.
  virtual MemoryPlace place_of(const Request& request) const = 0;
  /// Whether a tensor that lies there, a place for each rank, is reduced where it lies. Asked on the coordinator's rank
  /// only; the others go by its answer.
  virtual bool may_reduce_at(const MemoryPlaces& places) const = 0;
  /// Peers are kept out of the memory of so many bytes at the place, or part of it: nothing is reduced there. Requires:
  /// place.is_known(). Any thread.
  virtual bool is_withdrawn(const MemoryPlace& place, std::uint64_t bytes) const = 0;
};

}  // namespace ronde::backend
