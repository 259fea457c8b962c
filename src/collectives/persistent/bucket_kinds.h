// The kinds of bucket, for make_bucket() to choose from.
#pragma once

#include <memory>

#include "collectives/persistent/bucket.h"

namespace ronde::collectives {

/// Payload in the flag's line. Requires: payload_bytes(bucket) <= 56.
std::unique_ptr<HostBucket> make_inline_bucket(transport::HostArena& arena, const Bucket& bucket);
/// Everybody reads everything from slots, one wait.
std::unique_ptr<HostBucket> make_one_shot_bucket(transport::HostArena& arena, const Bucket& bucket);
/// Everybody reduces a slice, two waits. Requires: payload_bytes(bucket) <= 1 MiB.
std::unique_ptr<HostBucket> make_two_phase_bucket(transport::HostArena& arena, const Bucket& bucket);
/// In chunks through the lane's slots.
std::unique_ptr<HostBucket> make_ordered_bucket(transport::HostArena& arena, const Bucket& bucket, OrderedLane& lane);
/// In the tensors themselves.
std::unique_ptr<HostBucket> make_direct_bucket(transport::HostArena& arena, const Bucket& bucket);

}  // namespace ronde::collectives
