// What the sides of sends and recvs (sends.h, recvs.h) have in common.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "control/control.h"
#include "engine/requests/ticket.h"
#include "transport/peers.h"
#include "types/group.h"

namespace ronde::engine {

/// What goes in the offer itself: shorter than the exchange of two messages takes.
inline constexpr std::size_t kShortMessageBytes = 2048;

struct PairContext {
  const Group& group;         ///< the members, by their numbers
  control::Control& control;  ///< to all of them
  const transport::Peers& peers;
  std::function<void(const TicketPtr&, Status)> finish;  ///< ends a ticket

  int rank_of(int member) const { return group.ranks[static_cast<std::size_t>(member)]; }
  int own_rank() const { return rank_of(peers.self()); }
  void tell(int member, control::Message message) const { control.send(member, {group.id, std::move(message)}); }
  Status damaged(int from, const std::string& what) const {
    return Status::error(Code::internal, "rank " + std::to_string(rank_of(from)) + " has sent " + what +
                                             ": its memory, or this rank's, is damaged")
        .with_rank(rank_of(from));
  }
};

inline const Tensor& pair_tensor(const Ticket& ticket) { return ticket.request().tensors.front().input; }
inline std::byte* pair_data(const Ticket& ticket) { return static_cast<std::byte*>(pair_tensor(ticket).data); }

}  // namespace ronde::engine
