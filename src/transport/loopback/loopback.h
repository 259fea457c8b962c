// Loopback: worlds whose ranks are engines in one process, for tests, and the world of one rank.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "transport/arena/arena.h"

namespace ronde::transport {

/// The heap of a rank whose peers are engines in its process.
inline constexpr std::size_t kLoopbackHeapBytes = std::size_t{128} << 20;

/// `size` arenas over one anonymous shared mapping, in rank order; each may be used by a thread of its own and they
/// may be destroyed in any order. end_fd is -1: nobody dies here. One mapping, not one per rank, since
/// ThreadSanitizer takes two mappings of the same memory for different memory. Empty if the layout cannot work or the
/// system refuses memory or descriptors. The heap is at most kLoopbackHeapBytes. Requires: layout.size == size.
std::vector<std::unique_ptr<HostArena>> make_loopback_world(int size, const RegionLayout& layout);

/// The arena of a job of one rank, whose heap is as large as that of any other job: tensors may live there too. Null if
/// the system refuses a page of memory or a descriptor.
std::unique_ptr<HostArena> make_solo_arena();

}  // namespace ronde::transport
