// RegionLayout: where things lie in the region of memory that a rank of a host shares with the others.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace ronde::transport {

/// Regions and heaps begin at multiples of this in every process, so that the kernel can use huge pages.
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
/// What a rank's heap has if the process may have that much address space.
inline constexpr std::size_t kMostHeapBytes = std::size_t{256} << 30;

/// Where things lie in a region. A pure function of the world: the same on every rank.
///
///     control block | per peer: ring (a line of counters, then payload) | per peer: tail line | inputs | results
///     | from the next multiple of kHugePageBytes on, if there is one: heap
///
/// What lies before the heap exists from the meeting on (at most 2 MiB); of the heap nothing does.
struct RegionLayout {
  int size = 1;                     ///< ranks on the host
  std::size_t ring_bytes = 16384;   ///< payload of the message ring to each peer, a power of two
  std::size_t slot_bytes = 262144;  ///< one staging slot: the input of one tick; a multiple of kLineBytes
  int slots = 4;                    ///< ticks in flight, at least 2
  std::size_t heap_bytes = 0;       ///< a multiple of kHugePageBytes; 0: this host can share no tensors

  /// The layout that suits a host with `size` ranks, 1 <= size <= kMaxHostRanks: the defaults for 2 to 8; smaller
  /// rings and slots for more, since everybody's rings grow with the square of the ranks and everybody's slots
  /// together should stay in the processor's cache; next to nothing for 1, which stages nothing. The heap is what one
  /// would like to have: kMostHeapBytes, less for so many ranks that a process would map more than 4 TiB.
  static RegionLayout for_size(int size);

  /// INVALID_ARGUMENT with the number that cannot work, else ok.
  Status check() const;

  std::size_t ring_offset(
      int peer) const;  ///< counters (kLineBytes), then payload, of the ring from the owner to `peer`
  std::size_t tail_offset(int peer) const;    ///< line with what the owner has consumed of the ring from `peer` to it
  std::size_t input_offset(int slot) const;   ///< staging slot for the owner's input
  std::size_t result_offset(int slot) const;  ///< staging slot for the owner's reduced slice
  std::size_t result_bytes() const;  ///< room in a result slot: slot_bytes / size rounded up to a line, at least a line
  std::size_t eager_bytes() const;   ///< all before the heap, rounded up to pages
  std::size_t heap_offset() const;
  std::size_t total_bytes() const;  ///< rounded up to pages

  /// "2 ranks, 4 slots of 262144 bytes, rings of 16384 bytes"
  std::string text() const;
  bool operator==(const RegionLayout&) const = default;
};

/// How the heap of a host is divided: first what the engine of all its ranks needs for itself, then the parts of groups
/// (group_arena.h), then what callers get.
struct HeapParts {
  std::size_t groups = 0;  ///< where they begin
  std::size_t callers = 0;

  static HeapParts of(std::size_t heap_bytes);
};

}  // namespace ronde::transport
