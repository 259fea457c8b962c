#include "transport/arena/region_layout.h"

#include <algorithm>
#include <bit>

#include "base/round_up.h"
#include "transport/arena/control_block.h"

namespace ronde::transport {

namespace {

constexpr std::size_t kPageBytes = 4096;
/// The rings of a region for more than 8 ranks take no more than those for 8, down to kMinRingBytes each.
constexpr std::size_t kAllRingBytes = 8 * 16384;
constexpr std::size_t kMinRingBytes = 1024;

/// A process maps the regions of all ranks; 47 bits of address space hold 128 TiB.
constexpr std::size_t kAllHeapBytes = std::size_t{4} << 40;

constexpr std::size_t kControlBytes = round_up(sizeof(ControlBlock), kPageBytes);

}  // namespace

RegionLayout RegionLayout::for_size(int size) {
  RegionLayout layout;
  layout.size = size;
  layout.heap_bytes =
      std::min(kMostHeapBytes, std::bit_floor(kAllHeapBytes / static_cast<std::size_t>(std::max(size, 1))));
  if (size <= 1) {
    layout.ring_bytes = kMinRingBytes;
    layout.slot_bytes = kLineBytes;
    layout.slots = 2;
  } else if (size > 8) {
    layout.ring_bytes = std::max(kMinRingBytes, std::bit_floor(kAllRingBytes / static_cast<std::size_t>(size)));
    layout.slot_bytes = size <= 32 ? 131072 : 65536;
  }
  return layout;
}

Status RegionLayout::check() const {
  std::string wrong;
  if (size < 1 || size > kMaxHostRanks) {
    wrong = std::to_string(size) + " ranks; 1 to " + std::to_string(kMaxHostRanks) + " can share a host";
  } else if (!std::has_single_bit(ring_bytes) || ring_bytes < 64 || ring_bytes > (1u << 30)) {
    wrong = "rings of " + std::to_string(ring_bytes) + " bytes; a power of two from 64 to 2^30 is needed";
  } else if (slot_bytes == 0 || slot_bytes % kLineBytes != 0 || slot_bytes > (1u << 30)) {
    wrong = "slots of " + std::to_string(slot_bytes) + " bytes; a multiple of " + std::to_string(kLineBytes) +
            " up to 2^30 is needed";
  } else if (slots < 2 || slots > 64) {
    wrong = std::to_string(slots) + " slots; 2 to 64 are possible";
  } else if (heap_bytes % kHugePageBytes != 0 || heap_bytes > kMostHeapBytes) {
    wrong = "a heap of " + std::to_string(heap_bytes) + " bytes; a multiple of " + std::to_string(kHugePageBytes) +
            " up to " + std::to_string(kMostHeapBytes) + " is needed";
  }
  return wrong.empty() ? Status() : Status::error(Code::invalid_argument, "the shared memory cannot have " + wrong);
}

std::size_t RegionLayout::ring_offset(int peer) const {
  return kControlBytes + static_cast<std::size_t>(peer) * (kLineBytes + round_up(ring_bytes, kLineBytes));
}

std::size_t RegionLayout::tail_offset(int peer) const {
  return ring_offset(size) + static_cast<std::size_t>(peer) * kLineBytes;
}

std::size_t RegionLayout::input_offset(int slot) const {
  return round_up(tail_offset(size), kPageBytes) + static_cast<std::size_t>(slot) * slot_bytes;
}

std::size_t RegionLayout::result_offset(int slot) const {
  return input_offset(slots) + static_cast<std::size_t>(slot) * result_bytes();
}

std::size_t RegionLayout::result_bytes() const {
  const auto ranks = static_cast<std::size_t>(size);
  return std::max(kLineBytes, round_up((slot_bytes + ranks - 1) / ranks, kLineBytes));
}

std::size_t RegionLayout::eager_bytes() const { return round_up(result_offset(slots), kPageBytes); }

std::size_t RegionLayout::heap_offset() const { return round_up(eager_bytes(), kHugePageBytes); }

std::size_t RegionLayout::total_bytes() const { return heap_bytes == 0 ? eager_bytes() : heap_offset() + heap_bytes; }

HeapParts HeapParts::of(std::size_t heap_bytes) {
  // An eighth of address space is more than plans will ever need; none of it is memory before it is used.
  const std::size_t share = heap_bytes / 8 / kHugePageBytes * kHugePageBytes;
  return {share, 2 * share};
}

std::string RegionLayout::text() const {
  return std::to_string(size) + " ranks, " + std::to_string(slots) + " slots of " + std::to_string(slot_bytes) +
         " bytes, rings of " + std::to_string(ring_bytes) + " bytes";
}

}  // namespace ronde::transport
