// The backend `shm`'s buckets: makes this rank's part of what replay repeats, in the memory that the ranks of a host
// share, with the lane that large private tensors have in common.
#pragma once

#include <memory>
#include <optional>

#include "base/status.h"
#include "collectives/persistent/bucket_layout.h"
#include "collectives/persistent/ordered_lane.h"
#include "collectives/tuning/host_thresholds.h"
#include "transport/arena/arena.h"
#include "types/persistent_collective.h"
#include "types/thresholds.h"

namespace ronde::backend {

/// Used under one lock, but for what is said to be for any thread.
class ShmBuckets {
 public:
  /// `arena` must outlive this, and this the collectives that it makes.
  explicit ShmBuckets(transport::HostArena& arena);

  /// Where buckets lie; null if the ranks share no memory.
  BucketLayout* layout() { return layouts_ ? &*layouts_ : nullptr; }
  /// As Backend::prepare().
  Result<std::unique_ptr<PersistentCollective>> prepare(const Bucket& bucket, const Thresholds& thresholds);
  /// As Backend::begin_epoch().
  void begin_epoch(const Thresholds& thresholds);

 private:
  Status open_lane();

  transport::HostArena& arena_;
  std::optional<collectives::HostLayouts> layouts_;
  collectives::HostThresholds lane_thresholds_;  ///< as of the last begin_epoch()
  std::unique_ptr<collectives::OrderedLane> lane_;
};

/// Where in the own heap an all-reduce's tensor lies if it is one; the only form that can be reduced where it lies. Any
/// thread.
MemoryPlace place_in_heap(const transport::HostArena& arena, const Request& request);
/// All lie alike within a line, inputs and outputs: else slices could not be cut on lines of all ranks.
bool lie_alike(const MemoryPlaces& places);

}  // namespace ronde::backend
