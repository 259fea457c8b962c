#include "transport/hosts/hosts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "transport/arena/ring_link.h"
#include "transport/hosts/own_arena.h"
#include "transport/hosts/ring_pipe.h"
#include "transport/loopback/loopback.h"
#include "transport/tcp/tcp.h"

namespace ronde::transport {

int Hosts::count() const { return static_cast<int>(std::set<int>(first_of.begin(), first_of.end()).size()); }

std::vector<int> Hosts::members(int rank) const {
  std::vector<int> ranks;
  for (std::size_t each = 0; each < first_of.size(); ++each) {
    if (first_of[each] == first_of[static_cast<std::size_t>(rank)]) {
      ranks.push_back(static_cast<int>(each));
    }
  }
  return ranks;
}

namespace {

/// What ring pipes lie on.
struct Rings {
  std::shared_ptr<HostArena> arena;
  std::unique_ptr<Transport> transport;
};

}  // namespace

HostLinks links_between(std::vector<std::unique_ptr<Pipe>> pipes, std::vector<PeerInfo> who, int rank,
                        const Hosts& hosts, const HostTimeout& timeout, NewsDescriptors news,
                        std::shared_ptr<SharedNews> shared) {
  HostLinks made;
  std::shared_ptr<Rings> rings;
  if (hosts.arena) {
    rings = std::make_shared<Rings>();
    rings->arena = hosts.arena;
    rings->transport = make_ring_transport(*hosts.arena);
    const std::vector<int> members = hosts.members(rank);
    for (int local = 0; local < hosts.arena->size(); ++local) {
      if (local != hosts.arena->rank()) {
        pipes[static_cast<std::size_t>(members[static_cast<std::size_t>(local)])] =
            std::make_unique<RingPipe>(rings->transport->link(local), hosts.arena->process(local).end_fd);
      }
    }
    made.own = std::make_shared<OwnArena>(hosts.arena);
  } else {
    made.own = make_solo_arena();
  }
  made.links =
      links_over(std::move(pipes), std::move(who), timeout, std::move(news), std::move(rings), std::move(shared));
  return made;
}

Result<HostLinks> connect_hosts(store::Store& store, const JobKey& key, const std::string& scope, int rank, int size,
                                const std::string& address, const Hosts& hosts, const TcpOptions& options,
                                Nanoseconds limit, const std::optional<OfiOptions>& ofi) {
  std::vector<bool> reached(static_cast<std::size_t>(size));
  for (const int member : hosts.members(rank)) {
    reached[static_cast<std::size_t>(member)] = true;
  }
  HostLinks made;
  if (ofi) {
    RONDE_ASSIGN_OR_RETURN(OfiConnections connected, connect_by_ofi(store, key, scope, rank, size, address, *ofi,
                                                                    options, limit, std::move(reached)));
    made = links_between(std::move(connected.pipes), std::move(connected.who), rank, hosts, options.timeout,
                         std::move(connected.news), std::move(connected.shared));
  } else {
    RONDE_ASSIGN_OR_RETURN(TcpConnections connected,
                           connect_by_tcp(store, key, scope, rank, size, address, options, limit, std::move(reached)));
    made = links_between(streams_over(std::move(connected.connections), options.integrity), std::move(connected.who),
                         rank, hosts, options.timeout, std::move(connected.news));
  }
  if (!made.own) {
    return Status::error(Code::out_of_memory, "no memory for the words that this rank's threads share");
  }
  return made;
}

}  // namespace ronde::transport
