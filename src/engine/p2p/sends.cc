#include "engine/p2p/sends.h"

#include <algorithm>

#include "base/copy_bytes.h"
#include "engine/p2p/pair_errors.h"

namespace ronde::engine {

namespace {

/// Of a piece in a message between members who reach each other's memory, where this one has no slots: the links
/// between such members are short.
constexpr std::size_t kLittleBytes = 4096;

}  // namespace

Sends::Sends(const PairContext& context, transport::ReachableMemory& memory)
    : context_(context),
      memory_(memory),
      carried_bytes_(memory.reaches_members() ? kLittleBytes : StagingSlots::kSlotBytes),
      staging_(static_cast<std::size_t>(context.peers.size())) {}

/// The request's limit, from now on.
Nanoseconds Sends::until(Nanoseconds now, const Ticket& ticket) {
  const Nanoseconds deadline = later(now, ticket.request().timeout);
  next_look_ = std::min(next_look_, deadline);
  return deadline;
}

void Sends::submit(const TicketPtr& ticket, Nanoseconds now) {
  const Request& request = ticket->request();
  const Tensor& tensor = pair_tensor(*ticket);
  const int to = context_.group.index_of(request.root);
  const std::uint64_t id = next_id_++;
  control::OfferMessage offer{id, request.group, request.tag, tensor.dtype, tensor.shape, request.name, {}};
  if (tensor.bytes() <= kShortMessageBytes) {
    offer.payload.assign(static_cast<const char*>(tensor.data), tensor.bytes());
  }
  outgoing_[id] = {.ticket = ticket, .to = to, .bytes = tensor.bytes(), .deadline = until(now, *ticket)};
  context_.tell(to, std::move(offer));
}

Status Sends::read(int from, const control::AcceptMessage& message, Nanoseconds now) {
  const auto found = outgoing_.find(message.id);
  if (found == outgoing_.end()) {
    return {};
  }
  Outgoing& outgoing = found->second;
  if (outgoing.to == from && outgoing.given_up) {
    return {};  // which the receiver is about to read
  }
  if (outgoing.to != from || outgoing.accepted) {
    return context_.damaged(from, "an answer to what it was not asked");
  }
  outgoing.accepted = true;
  ++accepted_;
  outgoing.deadline = until(now, *outgoing.ticket);
  return {};
}

/// False if there is no room for the next piece just now.
bool Sends::send_piece(std::uint64_t id, Outgoing& outgoing) {
  StagingSlots& staging = staging_[static_cast<std::size_t>(outgoing.to)];
  const std::size_t left = outgoing.bytes - outgoing.sent;
  const std::byte* const from = pair_data(*outgoing.ticket) + outgoing.sent;
  control::PieceMessage piece{.id = id};
  if (staging.open(memory_)) {
    if (staging.is_full()) {
      return false;
    }
    const StagingSlots::Slot slot = staging.take();
    piece.bytes = std::min(left, StagingSlots::kSlotBytes);
    piece.place = slot.place;
    copy_bytes(slot.memory, from, piece.bytes);
    outgoing.slots.emplace_back(outgoing.sent + piece.bytes, slot.number);
  } else {
    if (!context_.control.flush(outgoing.to)) {
      return false;  // the ring is full; the receiver rings when it has made room
    }
    piece.bytes = std::min(left, carried_bytes_);
    piece.payload.assign(reinterpret_cast<const char*>(from), piece.bytes);
  }
  outgoing.sent += piece.bytes;
  context_.tell(outgoing.to, std::move(piece));
  return true;
}

bool Sends::send_pieces(std::uint64_t id, Outgoing& outgoing, std::size_t& budget, Nanoseconds now) {
  const std::size_t all = outgoing.bytes;
  const std::size_t before = outgoing.sent;
  while (outgoing.accepted && outgoing.sent < all && budget > 0) {
    const std::size_t sent = outgoing.sent;
    if (!send_piece(id, outgoing)) {
      break;
    }
    budget -= std::min(budget, outgoing.sent - sent);
  }
  if (outgoing.sent != before) {
    outgoing.deadline = until(now, *outgoing.ticket);
  }
  return outgoing.sent != before;
}

bool Sends::advance(std::size_t& budget, Nanoseconds now) {
  bool moved = false;
  for (auto& [id, outgoing] : outgoing_) {
    if (accepted_ == 0 || budget == 0) {
      break;
    }
    moved |= send_pieces(id, outgoing, budget, now);
  }
  return moved;
}

Status Sends::read(int from, const control::TakenMessage& message, Nanoseconds now) {
  const auto found = outgoing_.find(message.id);
  if (found == outgoing_.end()) {
    return {};
  }
  Outgoing& outgoing = found->second;
  const std::size_t told = outgoing.bytes > kShortMessageBytes ? outgoing.sent : outgoing.bytes;
  if (outgoing.to != from || message.bytes < outgoing.taken || message.bytes > told) {
    return context_.damaged(from, "word of more bytes than there were");
  }
  outgoing.taken = message.bytes;
  if (!outgoing.given_up) {
    outgoing.deadline = until(now, *outgoing.ticket);
  }
  while (!outgoing.slots.empty() && outgoing.slots.front().first <= outgoing.taken) {
    staging_[static_cast<std::size_t>(from)].give_back(outgoing.slots.front().second);
    outgoing.slots.pop_front();
  }
  if (outgoing.taken == outgoing.bytes) {
    forget(message.id, {});
  }
  return {};
}

// ---- Other ends

/// Drops a send, which the receiver touches no more, and ends its ticket if it still has one.
void Sends::forget(std::uint64_t id, const Status& outcome) {
  const auto found = outgoing_.find(id);
  Outgoing outgoing = std::move(found->second);
  outgoing_.erase(found);
  accepted_ -= outgoing.accepted ? 1 : 0;
  asked_ -= outgoing.given_up && outgoing.ticket ? 1 : 0;
  for (const auto& [end, slot] : outgoing.slots) {
    staging_[static_cast<std::size_t>(outgoing.to)].give_back(slot);
  }
  if (outgoing.ticket) {
    context_.finish(outgoing.ticket, outcome);
  }
}

/// The same with this reason, unless it was given up for another before.
void Sends::forget_given_up(std::uint64_t id, const Status& reason) {
  const Outgoing& outgoing = outgoing_.at(id);
  const Status outcome = outgoing.given_up ? outgoing.reason : reason;
  forget(id, outgoing.ticket ? outcome.with_tensor(outgoing.ticket->name()) : outcome);
}

void Sends::read_give_up(int from, std::uint64_t id, const Status& reason) {
  const auto found = outgoing_.find(id);
  if (found != outgoing_.end() && found->second.to == from) {
    forget_given_up(id, reason);
  }
}

/// Says so to the receiver, whose answer ends the record.
void Sends::give_up(std::uint64_t id, const Status& reason, Ending ending) {
  Outgoing& outgoing = outgoing_.at(id);
  const Status outcome = reason.with_tensor(outgoing.ticket->name());
  if (!outgoing.given_up) {
    context_.tell(outgoing.to, farewell(id, true, *outgoing.ticket, reason, context_.own_rank()));
    accepted_ -= outgoing.accepted ? 1 : 0;
    outgoing.accepted = false;
    outgoing.given_up = true;
    ++asked_;
  }
  outgoing.reason = outcome;
  if (ending == Ending::now) {
    --asked_;
    outgoing.deadline = kNever;
    context_.finish(std::exchange(outgoing.ticket, nullptr), outcome);
  }
}

/// Of the sends that nobody has taken those that are `concerned`.
void Sends::give_up_unaccepted(const Status& reason, const std::function<bool(const Outgoing&)>& concerned) {
  std::vector<std::uint64_t> sends;
  for (const auto& [id, outgoing] : outgoing_) {
    if (!outgoing.accepted && !outgoing.given_up && concerned(outgoing)) {
      sends.push_back(id);
    }
  }
  for (const std::uint64_t id : sends) {
    give_up(id, reason, Ending::when_answered);
  }
}

void Sends::check_time(Nanoseconds now) {
  if (now < next_look_) {
    return;
  }
  std::vector<std::uint64_t> late;
  for (const auto& [id, outgoing] : outgoing_) {
    if (now >= outgoing.deadline) {
      late.push_back(id);
    }
  }
  for (const std::uint64_t id : late) {
    const Outgoing& outgoing = outgoing_.at(id);
    give_up(id, outgoing.given_up ? outgoing.reason : pair_is_late(outgoing.ticket->request()), Ending::now);
  }
  next_look_ = kNever;
  for (const auto& [id, outgoing] : outgoing_) {
    next_look_ = std::min(next_look_, outgoing.deadline);
  }
}

bool Sends::cancel(const Ticket& ticket, const Status& reason) {
  for (const auto& [id, outgoing] : outgoing_) {
    if (outgoing.ticket.get() == &ticket) {
      if (!outgoing.given_up) {
        give_up(id, reason, Ending::when_answered);
      }
      return true;
    }
  }
  return false;
}

void Sends::close(const Status& reason) {
  give_up_unaccepted(reason, [](const Outgoing&) { return true; });
}

void Sends::part_with(int peer, const Status& reason) {
  give_up_unaccepted(reason, [peer](const Outgoing& outgoing) { return outgoing.to == peer; });
}

void Sends::end_with(int peer, const Status& reason) {
  std::vector<std::uint64_t> sends;
  for (const auto& [id, outgoing] : outgoing_) {
    if (outgoing.to == peer) {
      sends.push_back(id);
    }
  }
  for (const std::uint64_t id : sends) {
    forget_given_up(id, reason);
  }
}

void Sends::abandon(std::vector<TicketPtr>& tickets) {
  for (const auto& [id, outgoing] : outgoing_) {
    if (outgoing.ticket) {
      tickets.push_back(outgoing.ticket);
    }
  }
  outgoing_.clear();
  accepted_ = asked_ = 0;
  next_look_ = kNever;
}

bool Sends::has_business_with(int peer) const {
  return std::any_of(outgoing_.begin(), outgoing_.end(), [peer](const auto& each) { return each.second.to == peer; });
}

}  // namespace ronde::engine
