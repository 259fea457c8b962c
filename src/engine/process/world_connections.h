// World connections: the parts of which a member's connections are made, chosen: the memory of a host that all share
// and the backend `shm` over it, or links and the backend of messages. What an engine is given of them has no more
// names of either.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/staged/collective_library.h"
#include "collectives/tuning/host_table.h"
#include "collectives/tuning/table.h"
#include "engine/groups/group_connector.h"
#include "engine/membership/connections.h"
#include "transport/arena/arena.h"

namespace ronde::engine {

/// Of a member of a job.
struct JobConnections {
  Connections members;
  std::unique_ptr<GroupConnector> groups;  ///< within the job; null: there can be none
};

/// Of a job whose members all share the arena, in its order. `backend`: over it; `table`: by which groups within the
/// job reduce.
JobConnections connect_on_host(std::shared_ptr<transport::HostArena> arena, std::unique_ptr<backend::Backend> backend,
                               const collectives::Table& table = collectives::Table::built_in());
/// What a library has goes through it from now on, between the same members.
Status go_by_library(Connections& connections, std::shared_ptr<backend::CollectiveLibrary> library);

/// Of a job whose members reach each other by messages. `own`: this rank's arena, with no other rank in it. `wake`: as
/// MessagePeers has it. `first_of`: by member, the lowest one with which links go through memory; empty: with none.
/// `groups`: the links of groups within the job; null: there can be none. `table`: by which the job and groups within
/// it reduce, the same on every rank.
JobConnections connect_by_messages(std::shared_ptr<transport::HostArena> own, std::vector<transport::PeerInfo> who,
                                   int rank, transport::GroupLinks links, std::function<void()> wake,
                                   std::vector<int> first_of = {},
                                   std::shared_ptr<transport::LinksForGroups> groups = nullptr,
                                   const collectives::HostTable& table = collectives::HostTable::built_in());

}  // namespace ronde::engine
