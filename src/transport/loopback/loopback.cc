#include "transport/loopback/loopback.h"

#include <unistd.h>

#include <utility>

#include "transport/mapped_arena.h"

namespace ronde::transport {

std::vector<std::unique_ptr<HostArena>> make_loopback_world(int size, const RegionLayout& layout) {
  if (layout.size != size || !layout.check()) {
    return {};
  }
  const std::size_t bytes = layout.total_bytes();
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

std::unique_ptr<HostArena> make_solo_arena() {
  auto world = make_loopback_world(1, RegionLayout::for_size(1));
  return world.empty() ? nullptr : std::move(world.front());
}

}  // namespace ronde::transport
