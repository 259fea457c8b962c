// World: the connections of a job whose ranks are engines in one process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "backend/shm/shm.h"
#include "engine/process/world_connections.h"
#include "transport/loopback/loopback.h"

namespace ronde::engine {

/// By rank, of ranks that share memory.
inline std::vector<JobConnections> loopback_jobs(int ranks) {
  std::vector<JobConnections> all;
  for (auto& arena : transport::make_loopback_world(ranks, transport::RegionLayout::for_size(ranks))) {
    std::unique_ptr<backend::Backend> backend = backend::make_shm_backend(*arena);
    all.push_back(connect_on_host(std::move(arena), std::move(backend)));
  }
  return all;
}

/// The same for who makes no groups.
inline std::vector<Connections> loopback_connections(int ranks) {
  std::vector<Connections> all;
  for (JobConnections& each : loopback_jobs(ranks)) {
    all.push_back(std::move(each.members));
  }
  return all;
}

/// Of the rank of this number, which reaches others by messages. Its memory is made once in a thread, since it takes
/// long: an engine over links uses nothing of it but its bookkeeping.
inline Connections linked_connections(int rank, std::vector<transport::PeerInfo> who, transport::GroupLinks links,
                                      std::function<void()> wake, std::vector<int> first_of,
                                      const collectives::HostTable& table = collectives::HostTable::built_in()) {
  static thread_local std::map<int, std::shared_ptr<transport::HostArena>> arenas;
  std::shared_ptr<transport::HostArena>& arena = arenas[rank];
  if (!arena) {
    arena = std::move(transport::make_loopback_world(1, transport::RegionLayout::for_size(1)).front());
  }
  return connect_by_messages(arena, std::move(who), rank, std::move(links), std::move(wake), std::move(first_of),
                             nullptr, table)
      .members;
}

}  // namespace ronde::engine
