#include "transport/arena/mapped_arena.h"

#include <utility>

#include "transport/arena/mapped_heap.h"

namespace ronde::transport {

HostArena::Parts MappedArena::parts_of(int rank, const RegionLayout& layout, std::vector<Member>& members,
                                       MemoryPromises::Room room) {
  std::vector<std::byte*> regions;
  std::vector<HostBell> bells;
  std::vector<HostProcess> processes;
  std::vector<PromiseLine*> promises;
  for (const Member& member : members) {
    auto& control = *reinterpret_cast<ControlBlock*>(member.region);
    regions.push_back(member.region);
    bells.push_back({.line = &control.bell, .event_fd = member.bell ? member.bell->get() : -1});
    processes.push_back({member.info, member.pidfd.get()});
    promises.push_back(&control.promise);
  }
  Member& own = members[static_cast<std::size_t>(rank)];
  MappedHeap::Place place{
      .mapping = own.mapping,
      .begin = own.region + layout.heap_offset(),
      .bytes = layout.heap_bytes,
      .engine_bytes = HeapParts::of(layout.heap_bytes).groups,
      .memfd = std::move(own.memfd),
      .file_offset = layout.heap_offset(),
  };
  auto own_heap =
      std::make_unique<MappedHeap>(std::move(place), MemoryPromises(rank, std::move(promises), std::move(room)));
  return {
      rank, layout, std::move(regions), std::move(own_heap), HostBells(rank, std::move(bells)), std::move(processes)};
}

}  // namespace ronde::transport
