#include "transport/group_arena.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ronde::transport {

namespace {

/// So many groups of the usual size a host has room for.
constexpr std::size_t kUsualGroups = 256;

}  // namespace

GroupArena::GroupArena(HostArena& host, std::vector<int> ranks, const GroupPlace& place)
    : host_(host), ranks_(std::move(ranks)), place_(place) {
  own_ = static_cast<int>(std::find(ranks_.begin(), ranks_.end(), host.rank()) - ranks_.begin());
  layout_ = RegionLayout::for_size(static_cast<int>(ranks_.size()));
  layout_.heap_bytes = host.layout().heap_bytes - heap_start();
}

std::size_t GroupArena::least_bytes(int size) { return RegionLayout::for_size(size).heap_offset(); }

std::size_t GroupArena::usual_bytes(const RegionLayout& host, int size) {
  const HeapParts parts = HeapParts::of(host);
  const std::size_t share = (parts.callers - parts.groups) / kUsualGroups / kHugePageBytes * kHugePageBytes;
  return least_bytes(size) + std::max(share, kHugePageBytes);
}

Status GroupArena::open() {
  RONDE_RETURN_IF_ERROR(host_.commit(place_.offset, layout_.eager_bytes()));
  new (region(own_)) ControlBlock();
  return {};
}

void GroupArena::close() { host_.discard(place_.offset, place_.bytes); }

void GroupArena::ring_others() {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != own_) {
      ring(rank);
    }
  }
}

Status GroupArena::commit(std::size_t offset, std::size_t bytes) { return host_.commit(heap_start() + offset, bytes); }

void GroupArena::prefault(std::size_t offset, std::size_t bytes) { host_.prefault(heap_start() + offset, bytes); }

void GroupArena::discard(std::size_t offset, std::size_t bytes) { host_.discard(heap_start() + offset, bytes); }

}  // namespace ronde::transport
