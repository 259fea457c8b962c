#include "engine/p2p/point_to_point.h"

#include <utility>
#include <variant>

#include "engine/membership/ending_errors.h"
#include "engine/p2p/pair_errors.h"

namespace ronde::engine {

namespace {

/// What one call of advance() moves at most.
constexpr std::size_t kPairBudgetBytes = std::size_t{1} << 20;

}  // namespace

PointToPoint::PointToPoint(const Group& group, transport::ReachableMemory& memory, control::Control& control,
                           const transport::Peers& peers, std::function<void(const TicketPtr&, Status)> finish)
    : context_{group, control, peers, std::move(finish)},
      sends_(context_, memory),
      recvs_(context_, memory),
      gone_(static_cast<std::size_t>(peers.size())),
      may_have_said_more_(static_cast<std::size_t>(peers.size()), true) {}

void PointToPoint::submit(const TicketPtr& ticket, Nanoseconds now) {
  const Request& request = ticket->request();
  if (const Status refusal = closed_ ? why_in_vain(request) : closed_; !refusal) {
    context_.finish(ticket, refusal.with_tensor(ticket->name()).with_context("'" + ticket->name() + "'"));
    return;
  }
  if (request.kind == OpKind::send) {
    sends_.submit(ticket, now);
  } else {
    recvs_.submit(ticket, now);
  }
}

/// An error if the rank that the request speaks of has gone, or for a recv from any rank all others have; which one
/// went last is not known, so it names the first. What waits here already does not come into it.
Status PointToPoint::why_in_vain(const Request& request) const {
  if (request.root != kAnySource) {
    return gone_[static_cast<std::size_t>(context_.group.index_of(request.root))];
  }
  Status first;
  for (int peer = 0; peer < context_.peers.size(); ++peer) {
    const Status& gone = gone_[static_cast<std::size_t>(peer)];
    if (peer != context_.peers.self() && gone) {
      return {};
    }
    first = first ? gone : first;
  }
  return first;
}

// ---- What peers say

std::optional<Status> PointToPoint::read(int from, control::Message& message, Nanoseconds now) {
  if (auto* offer = std::get_if<control::OfferMessage>(&message)) {
    return read_offer(from, std::move(*offer), now);
  }
  if (const auto* accept = std::get_if<control::AcceptMessage>(&message)) {
    return sends_.read(from, *accept, now);
  }
  if (auto* piece = std::get_if<control::PieceMessage>(&message)) {
    return recvs_.read(from, std::move(*piece), now);
  }
  if (const auto* taken = std::get_if<control::TakenMessage>(&message)) {
    return sends_.read(from, *taken, now);
  }
  if (const auto* give_up = std::get_if<control::GiveUpMessage>(&message)) {
    return read_give_up(from, *give_up);
  }
  return std::nullopt;
}

Status PointToPoint::read_offer(int from, control::OfferMessage message, Nanoseconds now) {
  RONDE_RETURN_IF_ERROR(recvs_.check(from, message));
  const Status& gone = gone_[static_cast<std::size_t>(from)];
  if (!closed_ || !gone) {
    recvs_.refuse(from, message.id, closed_ ? gone : closed_);
  } else {
    recvs_.read(from, std::move(message), now);
  }
  return {};
}

Status PointToPoint::read_give_up(int from, const control::GiveUpMessage& message) {
  Status reason = Status::error(message.code, message.text);
  if (message.rank >= 0) {
    reason = reason.with_rank(message.rank);
  }
  if (message.by_sender) {
    recvs_.read_give_up(from, message, reason);
  } else {
    sends_.read_give_up(from, message.id, reason);
  }
  return {};
}

// ---- Time

bool PointToPoint::advance(Nanoseconds now) {
  std::size_t budget = kPairBudgetBytes;
  const bool received = recvs_.advance(budget, now);
  return sends_.advance(budget, now) || received;
}

void PointToPoint::check_time(Nanoseconds now) {
  sends_.check_time(now);
  recvs_.check_time(now);
}

// ---- The end

void PointToPoint::cancel(const Ticket& ticket) {
  const Status reason = pair_is_cancelled(ticket, context_.own_rank());
  if (!sends_.cancel(ticket, reason)) {
    recvs_.cancel(ticket, reason);
  }
}

void PointToPoint::close(const Status& reason) {
  closed_ = reason;
  sends_.close(reason);
  recvs_.close(reason);
}

void PointToPoint::part_with(int peer, const Status& reason) {
  Status& gone = gone_[static_cast<std::size_t>(peer)];
  if (!gone) {
    return;
  }
  gone = reason;
  sends_.part_with(peer, reason);
  recvs_.part_with(peer, reason, [this](const Request& request) { return !why_in_vain(request); });
}

void PointToPoint::end_with(int peer, const Status& reason) {
  sends_.end_with(peer, reason);
  recvs_.end_with(peer, reason);
  part_with(peer, reason);
}

bool PointToPoint::look_who_is_gone(const GroupMembers& members, const std::function<bool(int)>& has_left) {
  bool again = false;
  for (int peer = 0; peer < context_.peers.size() && !is_empty(); ++peer) {
    if (peer == context_.peers.self() || (has_parted_with(peer) && !has_business_with(peer))) {
      continue;
    }
    if (has_left(peer)) {
      part_with(peer, rank_has_left(context_.rank_of(peer)));
    }
    if (!members.has_gone(peer)) {
      continue;
    }
    if (may_have_said_more_[static_cast<std::size_t>(peer)]) {
      may_have_said_more_[static_cast<std::size_t>(peer)] = false;
      again = true;
      continue;
    }
    end_with(peer, rank_has_left(context_.rank_of(peer)));
  }
  return again;
}

std::vector<TicketPtr> PointToPoint::abandon() {
  std::vector<TicketPtr> tickets;
  sends_.abandon(tickets);
  recvs_.abandon(tickets);
  return tickets;
}

}  // namespace ronde::engine
