#include "transport/hosts/own_arena.h"

#include <utility>

#include "transport/arena/heap_tail.h"

namespace ronde::transport {

OwnArena::OwnArena(std::shared_ptr<HostArena> host) : HostArena(parts_of(*host)), host_(std::move(host)) {}

HostArena::Parts OwnArena::parts_of(HostArena& host) {
  const int own = host.rank();
  RegionLayout layout = host.layout();
  layout.size = 1;
  if (layout.heap_offset() != host.layout().heap_offset()) {
    layout.heap_bytes = 0;  // it would be looked for in the wrong place
  }
  OwnHeap& heap = host.own_heap();
  return {0,
          layout,
          {host.region(own)},
          std::make_unique<HeapTail>(heap, heap.size_bytes() - layout.heap_bytes, heap.engine_bytes()),
          HostBells(0, {host.bells().of(own)}),
          {{host.process(own).info, -1}}};
}

}  // namespace ronde::transport
