#include "transport/loopback/loopback.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "transport/arena/mapped_arena.h"
#include "transport/bell.h"

namespace ronde::transport {

namespace {

std::vector<std::unique_ptr<HostArena>> make_world(int size, const RegionLayout& layout) {
  // Each region begins at a multiple of the huge page, as those of processes do.
  const std::size_t bytes = (layout.total_bytes() + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  Result<Mapping> memory = Mapping::anonymous(static_cast<std::size_t>(size) * bytes);
  if (!memory) {
    return {};
  }
  const auto mapping = std::make_shared<const Mapping>(std::move(memory).value());
  std::vector<std::shared_ptr<const UniqueFd>> bells;
  for (int rank = 0; rank < size; ++rank) {
    Result<UniqueFd> bell = make_bell_fd();
    if (!bell) {
      return {};
    }
    bells.push_back(std::make_shared<const UniqueFd>(std::move(bell).value()));
  }

  std::vector<std::unique_ptr<HostArena>> arenas;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<MappedArena::Member> members(static_cast<std::size_t>(size));
    for (std::size_t peer = 0; peer < members.size(); ++peer) {
      members[peer].mapping = mapping;
      members[peer].region = mapping->base() + peer * bytes;
      members[peer].bell = bells[peer];
      members[peer].info = PeerInfo{"loopback", ::getpid()};
    }
    arenas.push_back(std::make_unique<MappedArena>(rank, layout, std::move(members)));
  }
  return arenas;
}

}  // namespace

std::vector<std::unique_ptr<HostArena>> make_loopback_world(int size, const RegionLayout& layout) {
  if (layout.size != size || !layout.check()) {
    return {};
  }
  RegionLayout smaller = layout;
  smaller.heap_bytes = std::min(layout.heap_bytes, kLoopbackHeapBytes);
  return make_world(size, smaller);
}

std::unique_ptr<HostArena> make_solo_arena() {
  RegionLayout layout = RegionLayout::for_size(1);
  layout.heap_bytes = possible_heap_bytes(layout);
  auto world = make_world(1, layout);
  return world.empty() ? nullptr : std::move(world.front());
}

}  // namespace ronde::transport
