// Connections: what a member of a group has to reach the others with. Who makes them decides through what the group's
// bytes, agreement and news of each other's life travel; the engine does not know.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "transport/arena.h"
#include "transport/mailbox.h"
#include "transport/peers.h"
#include "transport/transport.h"

namespace ronde::engine {

/// Destroyed from the last to the first.
struct Connections {
  /// The memory that members of this host share; this rank's own, of the whole job, if it shares none.
  std::shared_ptr<transport::HostArena> arena;
  std::vector<transport::PeerInfo> who;  ///< by member
  std::vector<int> first_of;  ///< by member: the lowest one with which it shares memory; of what goes by messages
  std::shared_ptr<transport::LinksForGroups> links_for_groups;  ///< where groups need links; of the job only
  std::shared_ptr<transport::Transport> links;                  ///< of the mailbox
  std::unique_ptr<transport::Mailbox> mailbox;                  ///< of what travels as messages; null if nothing does
  std::shared_ptr<transport::Transport> agreement;              ///< for agreement's messages; null in a world of one
  std::unique_ptr<transport::Peers> peers;
  std::unique_ptr<backend::Backend> backend;

  /// All members share the arena, in its order.
  static Connections on_host(std::shared_ptr<transport::HostArena> arena, std::unique_ptr<backend::Backend> backend);
  /// The members reach each other by messages. `wake`: as MessagePeers has it. `first_of`: between whom links go
  /// through memory; empty: between none.
  static Connections by_messages(std::shared_ptr<transport::HostArena> own, std::vector<transport::PeerInfo> who,
                                 int rank, transport::GroupLinks links, std::function<void()> wake,
                                 std::vector<int> first_of = {});

  /// Of a group of these members, of which this rank is the one at `own`. `number`: as LinksForGroups has it. `call`:
  /// this rank's number for the group (transport/group_calls.h). Requires: links_for_groups.
  Connections of_group(const std::vector<int>& members, int own, std::uint64_t number, int call) const;

  /// Every member is in the arena, whose ranks are the members' numbers.
  bool all_share_memory() const { return !mailbox; }
  /// A descriptor that is readable when links have news (Transport::news_fd()), of which the bell tells nobody; -1 if
  /// the bell tells all.
  int news_fd() const { return links ? links->news_fd() : -1; }
};

}  // namespace ronde::engine
