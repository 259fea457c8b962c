// The ranks of one host in one process, by what the layers above see of it: for tests whose subject is not how ranks
// share memory.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "transport/arena/arena_memory.h"
#include "transport/arena/host_peers.h"
#include "transport/arena/ring_link.h"
#include "transport/loopback/loopback.h"

namespace ronde::transport {

struct LoopbackRank {
  std::unique_ptr<HostArena> arena;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Peers> peers;
  std::unique_ptr<ReachableMemory> memory;
};

/// In rank order.
inline std::vector<LoopbackRank> loopback_host(int size) {
  std::vector<LoopbackRank> ranks;
  for (auto& arena : make_loopback_world(size, RegionLayout::for_size(size))) {
    LoopbackRank rank;
    rank.transport = make_ring_transport(*arena);
    rank.peers = std::make_unique<HostPeers>(*arena);
    rank.memory = std::make_unique<ArenaMemory>(*arena, ArenaMemory::Holds::all_members);
    rank.arena = std::move(arena);
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

/// The rank's, where members do not reach each other's.
inline std::unique_ptr<ReachableMemory> unreached_memory(const LoopbackRank& rank) {
  return std::make_unique<ArenaMemory>(*rank.arena, ArenaMemory::Holds::own_rank);
}

}  // namespace ronde::transport
