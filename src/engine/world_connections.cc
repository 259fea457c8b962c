#include "engine/connections.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "backend/messages/messages.h"
#include "transport/group_calls.h"
#include "transport/host_peers.h"
#include "transport/message_peers.h"
#include "transport/ring_link.h"

namespace ronde::engine {

Connections Connections::on_host(std::shared_ptr<transport::HostArena> arena,
                                 std::unique_ptr<backend::Backend> backend) {
  Connections made;
  made.arena = std::move(arena);
  for (int rank = 0; rank < made.arena->size(); ++rank) {
    made.who.push_back(made.arena->peer(rank));
  }
  if (made.arena->size() > 1) {
    made.agreement = transport::make_ring_transport(*made.arena);
  }
  made.peers = std::make_unique<transport::HostPeers>(*made.arena);
  made.backend = std::move(backend);
  return made;
}

Connections Connections::by_messages(std::shared_ptr<transport::HostArena> own, std::vector<transport::PeerInfo> who,
                                     int rank, transport::GroupLinks links, std::function<void()> wake,
                                     std::vector<int> first_of) {
  Connections made;
  made.arena = std::move(own);
  made.links = std::move(links.data);
  made.mailbox = std::make_unique<transport::Mailbox>(made.links.get(), rank, static_cast<int>(who.size()));
  made.who = std::move(who);
  made.agreement = std::move(links.agreement);
  made.peers = std::make_unique<transport::MessagePeers>(*made.mailbox, std::move(wake));
  made.first_of = std::move(first_of);
  if (made.first_of.empty()) {
    made.first_of.resize(made.who.size());
    std::iota(made.first_of.begin(), made.first_of.end(), 0);
  }
  made.backend = backend::make_message_backend(*made.mailbox, collectives::RankLayout(made.first_of));
  return made;
}

Connections Connections::of_group(const std::vector<int>& members, int own, std::uint64_t number, int call) const {
  std::vector<transport::PeerInfo> group;
  std::vector<int> hosts;  // by member of the group, in numbers of this one's
  std::vector<int> groups_first_of;
  for (const int member : members) {
    group.push_back(who[static_cast<std::size_t>(member)]);
    hosts.push_back(first_of[static_cast<std::size_t>(member)]);
    groups_first_of.push_back(static_cast<int>(std::find(hosts.begin(), hosts.end(), hosts.back()) - hosts.begin()));
  }
  const auto call_it = [bell = arena, call] {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    transport::call_group_after_fence(bell->control(bell->rank()).calls, call);
  };
  return by_messages(
      arena, std::move(group), own, links_for_groups->open(number, members, call_it),
      [call_it, bell = arena] {
        call_it();
        bell->ring(bell->rank());
      },
      std::move(groups_first_of));
}

}  // namespace ronde::engine
