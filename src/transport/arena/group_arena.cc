#include "transport/arena/group_arena.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <utility>

#include "transport/group_calls.h"

namespace ronde::transport {

namespace {

/// Of the room that is left a group gets such a part: the first ones more than those that come when little is left.
constexpr std::size_t kShareOfRoom = 1024;
/// So many bytes of each slot are made at first.
constexpr std::size_t kFewSlotBytes = 4096;

/// Which members have left, a bit each: in the ring to oneself, which nobody needs.
std::atomic<std::uint64_t>* departures(std::byte* region, const RegionLayout& layout, int owner) {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(region + layout.ring_offset(owner));
}

}  // namespace

GroupArena::GroupArena(HostArena& host, std::vector<GroupMember> members, const GroupPlace& place)
    : host_(host), members_(std::move(members)), place_(place) {
  layout_ = RegionLayout::for_size(static_cast<int>(members_.size()));
  layout_.heap_bytes = host.layout().heap_bytes - heap_start();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    own_ = members_[i].rank == host.rank() ? static_cast<int>(i) : own_;
    regions_.push_back(host.heap(members_[i].rank) + members_[i].offset);
  }
}

GroupArena::~GroupArena() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != own_) {
      departures(region(peer), layout_, peer)[own_ / 64].fetch_or(std::uint64_t{1} << (own_ % 64),
                                                                  std::memory_order_release);
    }
  }
}

std::size_t GroupArena::least_bytes(int size) { return RegionLayout::for_size(size).heap_offset() + kHugePageBytes; }

std::size_t GroupArena::usual_bytes(int size, std::size_t left) {
  const std::size_t share = left / kShareOfRoom / kHugePageBytes * kHugePageBytes;
  return std::max(least_bytes(size), share);
}

Status GroupArena::open(HostArena& host, const GroupPlace& place, int size) {
  RONDE_RETURN_IF_ERROR(host.commit(place.offset, RegionLayout::for_size(size).input_offset(0)));
  new (host.heap(host.rank()) + place.offset) ControlBlock();
  return {};
}

bool GroupArena::has_left(HostArena& host, const GroupPlace& place, int size, int own, int member) {
  const std::atomic<std::uint64_t>* const words =
      departures(host.heap(host.rank()) + place.offset, RegionLayout::for_size(size), own);
  return (words[member / 64].load(std::memory_order_acquire) >> (member % 64) & 1) != 0;
}

void GroupArena::ring_after_fence(int rank) {
  call_group_after_fence(host_.control(host_rank(rank)).calls, member(rank).call);
  host_.ring_after_fence(host_rank(rank));
}

void GroupArena::ring_others_after_fence() {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != own_) {
      ring_after_fence(rank);
    }
  }
}

/// Small ones are what most groups ever reduce: the whole slots of two ranks are 1.5 MiB, for each of them. Only what
/// is new is asked for: what cannot be had is discarded, and peers may still read what was there before.
Status GroupArena::need_slots(std::size_t bytes) {
  if (bytes <= ready_slot_bytes_) {
    return {};
  }
  const auto commit = [&](std::size_t slot_offset, std::size_t slot_bytes) {
    const std::size_t from = std::min(ready_slot_bytes_, slot_bytes);
    const std::size_t to = std::min(bytes <= kFewSlotBytes ? kFewSlotBytes : slot_bytes, slot_bytes);
    return host_.commit(place_.offset + slot_offset + from, to - from);
  };
  for (int slot = 0; slot < layout_.slots; ++slot) {
    RONDE_RETURN_IF_ERROR(commit(layout_.input_offset(slot), layout_.slot_bytes));
    RONDE_RETURN_IF_ERROR(commit(layout_.result_offset(slot), layout_.result_bytes()));
  }
  ready_slot_bytes_ = bytes <= kFewSlotBytes ? kFewSlotBytes : SIZE_MAX;
  return {};
}

Status GroupArena::commit(std::size_t offset, std::size_t bytes) { return host_.commit(heap_start() + offset, bytes); }

void GroupArena::prefault(std::size_t offset, std::size_t bytes) { host_.prefault(heap_start() + offset, bytes); }

void GroupArena::discard(std::size_t offset, std::size_t bytes) { host_.discard(heap_start() + offset, bytes); }

}  // namespace ronde::transport
