// Where a tensor lies in the heaps: each rank of a host has one, which all of them map (docs/architecture.md).
#pragma once

#include <cstdint>
#include <vector>

namespace ronde {

/// Bytes from the beginning of a rank's heap; this: the tensor does not lie in it.
inline constexpr std::int64_t kNoOffset = -1;

/// One offset for each member of the group, by index; empty if the tensor is private memory on any of them. Offsets
/// may differ, since every rank allocates for itself, but all lie alike within a line (kBucketLineBytes).
using HeapPlaces = std::vector<std::int64_t>;

}  // namespace ronde
