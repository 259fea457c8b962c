#include "transport/arena/group_part_memory.h"

#include <algorithm>
#include <new>

#include "transport/arena/control_block.h"

namespace ronde::transport {

namespace {

/// Of the room that is left a group gets such a part: the first ones more than those that come when little is left.
constexpr std::size_t kShareOfRoom = 1024;

/// Which members have left, a bit each: in the ring to oneself, which nobody needs.
std::atomic<std::uint64_t>* departures(std::byte* region, const RegionLayout& layout, int owner) {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(region + layout.ring_offset(owner));
}

}  // namespace

std::size_t least_group_bytes(int size) { return RegionLayout::for_size(size).heap_offset() + kHugePageBytes; }

std::size_t usual_group_bytes(int size, std::size_t left) {
  const std::size_t share = left / kShareOfRoom / kHugePageBytes * kHugePageBytes;
  return std::max(least_group_bytes(size), share);
}

Status open_group_part(OwnHeap& host, const GroupPlace& place, int size) {
  RONDE_RETURN_IF_ERROR(host.commit(place.offset, RegionLayout::for_size(size).input_offset(0)));
  new (host.begin() + place.offset) ControlBlock();
  return {};
}

void leave_group_part(std::byte* region, const RegionLayout& layout, int owner, int member) {
  departures(region, layout, owner)[member / 64].fetch_or(std::uint64_t{1} << (member % 64), std::memory_order_release);
}

bool has_left_group_part(const OwnHeap& host, const GroupPlace& place, int size, int own, int member) {
  const std::atomic<std::uint64_t>* const words =
      departures(host.begin() + place.offset, RegionLayout::for_size(size), own);
  return (words[member / 64].load(std::memory_order_acquire) >> (member % 64) & 1) != 0;
}

}  // namespace ronde::transport
