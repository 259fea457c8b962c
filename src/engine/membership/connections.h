// Connections: what a member of a group has to reach the others with. Who makes them decides through what the group's
// bytes, agreement and news of each other's life travel (world_connections.h); the engine does not know.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/unique_fd.h"
#include "transport/bell.h"
#include "transport/group_calls.h"
#include "transport/messages/mailbox.h"
#include "transport/peer_info.h"
#include "transport/peers.h"
#include "transport/reachable_memory.h"
#include "transport/transport.h"

namespace ronde::engine {

/// Destroyed from the last to the first.
struct Connections {
  std::shared_ptr<const void> keeps;     ///< what all the rest lies in
  std::vector<transport::PeerInfo> who;  ///< by member
  /// By member: a descriptor that becomes readable when its process has ended, -1 where there is none, as of this one's
  /// own. Owned by `keeps`.
  std::vector<int> processes;
  transport::OwnBell bell;                             ///< of this rank, whichever of its groups it is for
  transport::CallLine* calls = nullptr;                ///< which of this rank's groups are called
  std::unique_ptr<transport::ReachableMemory> memory;  ///< this rank's, and what it reaches of the others'
  std::shared_ptr<transport::Transport> links;         ///< of the mailbox
  std::unique_ptr<transport::Mailbox> mailbox;         ///< of what travels as messages; null if nothing does
  std::shared_ptr<transport::Transport> agreement;     ///< for agreement's messages; null in a world of one
  std::unique_ptr<transport::Peers> peers;
  std::unique_ptr<backend::Backend> backend;

  UniqueFd other_news;  ///< stands for the links' news and those of a backend, if it has some that ring no bell

  /// A descriptor that is readable when links (Transport::news_fd()) or the backend have news, of which the bell tells
  /// nobody; -1 if the bell tells all.
  int news_fd() const { return other_news.is_open() ? other_news.get() : links ? links->news_fd() : -1; }
};

}  // namespace ronde::engine
