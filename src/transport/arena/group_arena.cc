#include "transport/arena/group_arena.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "transport/arena/heap_tail.h"

namespace ronde::transport {

namespace {

/// So many bytes of each slot are made at first.
constexpr std::size_t kFewSlotBytes = 4096;

}  // namespace

HostArena::Parts GroupArena::parts_of(HostArena& host, const std::vector<GroupMember>& members,
                                      const GroupPlace& place) {
  int own = 0;
  RegionLayout layout = RegionLayout::for_size(static_cast<int>(members.size()));
  std::vector<std::byte*> regions;
  std::vector<HostBell> bells;
  std::vector<HostProcess> processes;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const GroupMember& member = members[i];
    own = member.rank == host.rank() ? static_cast<int>(i) : own;
    regions.push_back(host.heap(member.rank) + member.offset);
    bells.push_back(host.bells().of(member.rank));
    bells.back().calls = &host.control(member.rank).calls;
    bells.back().call = member.call;
    processes.push_back(host.process(member.rank));
  }
  auto own_heap = std::make_unique<HeapTail>(host.own_heap(), place.offset + layout.heap_offset(),
                                             place.bytes - layout.heap_offset());
  layout.heap_bytes = own_heap->size_bytes();
  return {own, layout, std::move(regions), std::move(own_heap), HostBells(own, std::move(bells)), std::move(processes)};
}

GroupArena::GroupArena(HostArena& host, const std::vector<GroupMember>& members, const GroupPlace& place)
    : HostArena(parts_of(host, members, place)), host_(host.own_heap()), offset_(place.offset) {}

GroupArena::~GroupArena() {
  const int own = rank();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != own) {
      leave_group_part(region(peer), layout(), peer, own);
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
    return host_.commit(offset_ + slot_offset + from, to - from);
  };
  for (int slot = 0; slot < layout().slots; ++slot) {
    RONDE_RETURN_IF_ERROR(commit(layout().input_offset(slot), layout().slot_bytes));
    RONDE_RETURN_IF_ERROR(commit(layout().result_offset(slot), layout().result_bytes()));
  }
  ready_slot_bytes_ = bytes <= kFewSlotBytes ? kFewSlotBytes : SIZE_MAX;
  return {};
}

}  // namespace ronde::transport
