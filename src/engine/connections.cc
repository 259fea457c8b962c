#include "engine/connections.h"

#include <utility>

#include "backend/messages/messages.h"
#include "transport/host_peers.h"
#include "transport/message_peers.h"
#include "transport/ring_link.h"

namespace ronde::engine {

Connections Connections::on_host(std::unique_ptr<transport::HostArena> arena,
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

Connections Connections::by_messages(std::unique_ptr<transport::HostArena> own, std::vector<transport::PeerInfo> who,
                                     int rank, std::shared_ptr<transport::Transport> links,
                                     std::shared_ptr<transport::Transport> agreement, std::function<void()> wake) {
  Connections made;
  made.arena = std::move(own);
  made.links = std::move(links);
  made.mailbox = std::make_unique<transport::Mailbox>(made.links.get(), rank, static_cast<int>(who.size()));
  made.who = std::move(who);
  made.agreement = std::move(agreement);
  made.peers = std::make_unique<transport::MessagePeers>(*made.mailbox, std::move(wake));
  made.backend = backend::make_message_backend(*made.mailbox);
  return made;
}

}  // namespace ronde::engine
