#include "engine/p2p/recvs.h"

#include <algorithm>
#include <atomic>

#include "base/copy_bytes.h"
#include "engine/p2p/pair_errors.h"

namespace ronde::engine {

namespace {

std::size_t offered_bytes(const control::OfferMessage& offer) {
  return static_cast<std::size_t>(element_count(offer.shape)) * dtype_bytes(offer.dtype);
}

}  // namespace

bool Recvs::takes_from(const Ticket& recv, int from) const {
  return recv.request().root == kAnySource || recv.request().root == context_.rank_of(from);
}

/// The request's limit, from now on.
Nanoseconds Recvs::until(Nanoseconds now, const Ticket& ticket) {
  const Nanoseconds deadline = later(now, ticket.request().timeout);
  next_look_ = std::min(next_look_, deadline);
  return deadline;
}

// ---- Meeting

void Recvs::submit(const TicketPtr& ticket, Nanoseconds now) {
  const Tag tag{ticket->request().group, ticket->request().tag};
  Waiting& waiting = waiting_[tag];
  const auto found = std::find_if(waiting.offers.begin(), waiting.offers.end(),
                                  [&](const Incoming& incoming) { return takes_from(*ticket, incoming.from); });
  if (found == waiting.offers.end()) {
    waiting.posted.push_back({ticket, until(now, *ticket)});
    return;
  }
  Incoming incoming = std::move(*found);
  waiting.offers.erase(found);
  if (waiting.posted.empty() && waiting.offers.empty()) {
    waiting_.erase(tag);
  }
  match(std::move(incoming), ticket, now);
}

Status Recvs::check(int from, const control::OfferMessage& message) const {
  if (dtype_bytes(message.dtype) == 0 ||
      (offered_bytes(message) <= kShortMessageBytes && message.payload.size() != offered_bytes(message))) {
    return context_.damaged(from, "an offer that cannot be");
  }
  return {};
}

void Recvs::read(int from, control::OfferMessage message, Nanoseconds now) {
  Incoming incoming;
  incoming.from = from;
  incoming.offer = std::move(message);
  incoming.offer.group = context_.group.id;  // the sender may know the group by another number
  const Tag tag{incoming.offer.group, incoming.offer.tag};
  Waiting& waiting = waiting_[tag];
  const auto found = std::find_if(waiting.posted.begin(), waiting.posted.end(),
                                  [&](const Posted& posted) { return takes_from(*posted.ticket, from); });
  if (found == waiting.posted.end()) {
    waiting.offers.push_back(std::move(incoming));
    return;
  }
  const TicketPtr ticket = std::move(found->ticket);
  waiting.posted.erase(found);
  if (waiting.posted.empty() && waiting.offers.empty()) {
    waiting_.erase(tag);
  }
  match(std::move(incoming), ticket, now);
}

void Recvs::match(Incoming incoming, const TicketPtr& ticket, Nanoseconds now) {
  const Tensor& tensor = pair_tensor(*ticket);
  const control::OfferMessage& offer = incoming.offer;
  const int from = context_.rank_of(incoming.from);
  ticket->set_source(from);
  if (tensor.dtype != offer.dtype || tensor.elements() != element_count(offer.shape)) {
    const std::string what = pair_does_not_fit(offer, from, ticket->request(), context_.own_rank());
    context_.tell(incoming.from, control::GiveUpMessage{offer.id, false, Code::mismatch, what, -1});
    context_.finish(ticket, Status::error(Code::mismatch, what).with_tensor(ticket->name()));
    return;
  }
  incoming.ticket = ticket;
  incoming.deadline = until(now, *ticket);
  const Key key{incoming.from, offer.id};
  Incoming& kept = incoming_[key] = std::move(incoming);
  if (offered_bytes(kept.offer) > kShortMessageBytes) {
    context_.tell(kept.from, control::AcceptMessage{kept.offer.id});
    return;
  }
  if (!kept.offer.payload.empty()) {
    copy_bytes(pair_data(*ticket), kept.offer.payload.data(), kept.offer.payload.size());
  }
  kept.received = kept.offer.payload.size();
  received(key, kept);
}

// ---- The bytes

Status Recvs::read(int from, control::PieceMessage message, Nanoseconds now) {
  const auto found = incoming_.find({from, message.id});
  if (found == incoming_.end()) {
    return {};  // it was given up here, which the sender is about to read
  }
  Incoming& incoming = found->second;
  std::size_t told = incoming.received;
  for (const control::PieceMessage& piece : incoming.pieces) {
    told += piece.bytes;
  }
  const bool lies_well = message.place == kNoOffset ? message.bytes == message.payload.size()
                                                    : memory_.find(from, message.place, message.bytes) != nullptr;
  if (message.bytes == 0 || message.bytes > offered_bytes(incoming.offer) - told || !lies_well) {
    return context_.damaged(from, "a piece of a message that cannot be");
  }
  incoming.pieces.push_back(std::move(message));
  incoming.deadline = until(now, *incoming.ticket);
  return {};
}

void Recvs::received(const Key& key, Incoming& incoming) {
  context_.tell(key.first, control::TakenMessage{key.second, incoming.received});
  if (incoming.received == offered_bytes(incoming.offer)) {
    const TicketPtr ticket = incoming.ticket;
    incoming_.erase(key);
    context_.finish(ticket, {});
  }
}

bool Recvs::advance(std::size_t& budget, Nanoseconds now) {
  bool moved = false;
  for (auto next = incoming_.begin(); next != incoming_.end() && budget > 0;) {
    const auto current = next++;  // received() may erase it
    const Key key = current->first;
    moved |= copy_pieces(key, current->second, budget, now);
  }
  return moved;
}

/// Of one message, which is gone once it has all of them.
bool Recvs::copy_pieces(const Key& key, Incoming& incoming, std::size_t& budget, Nanoseconds now) {
  bool moved = false;
  while (!incoming.pieces.empty() && budget > 0) {
    const control::PieceMessage piece = std::move(incoming.pieces.front());
    incoming.pieces.pop_front();
    const void* const from = piece.place == kNoOffset ? static_cast<const void*>(piece.payload.data())
                                                      : memory_.find(key.first, piece.place, piece.bytes);
    copy_bytes(pair_data(*incoming.ticket) + incoming.received, from, piece.bytes);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (context_.peers.has_given_up(key.first)) {
      break;  // its slots may hold anything by now; it has gone, which ends this recv
    }
    incoming.received += piece.bytes;
    incoming.deadline = until(now, *incoming.ticket);
    budget -= std::min<std::size_t>(budget, piece.bytes);
    moved = true;
    const bool is_last = incoming.received == offered_bytes(incoming.offer);
    received(key, incoming);
    if (is_last) {
      break;
    }
  }
  return moved;
}

// ---- Other ends

void Recvs::refuse(int from, std::uint64_t id, const Status& reason) const {
  context_.tell(from, refusal(id, reason, context_.own_rank()));
}

void Recvs::read_give_up(int from, const control::GiveUpMessage& message, const Status& reason) {
  // What it does not know it has received, refused or given up itself: it has said so.
  control::GiveUpMessage answer = message;
  answer.by_sender = false;
  if (const auto found = incoming_.find({from, message.id}); found != incoming_.end()) {
    const TicketPtr ticket = found->second.ticket;
    incoming_.erase(found);
    context_.tell(from, std::move(answer));
    context_.finish(ticket, reason.with_tensor(ticket->name()));
    return;
  }
  for (auto& [tag, waiting] : waiting_) {
    if (std::erase_if(waiting.offers, [&](const Incoming& incoming) {
          return incoming.from == from && incoming.offer.id == message.id;
        }) != 0) {
      context_.tell(from, answer);
    }
  }
  forget_empty();
}

void Recvs::forget_empty() {
  std::erase_if(waiting_, [](const auto& each) { return each.second.posted.empty() && each.second.offers.empty(); });
}

/// Tells the sender.
void Recvs::give_up(const Key& key, const Status& reason) {
  const TicketPtr ticket = incoming_.at(key).ticket;
  context_.tell(key.first, farewell(key.second, false, *ticket, reason, context_.own_rank()));
  incoming_.erase(key);
  context_.finish(ticket, reason.with_tensor(ticket->name()));
}

Nanoseconds Recvs::earliest() const {
  Nanoseconds next = kNever;
  for (const auto& [key, incoming] : incoming_) {
    next = std::min(next, incoming.deadline);
  }
  for (const auto& [tag, waiting] : waiting_) {
    for (const Posted& posted : waiting.posted) {
      next = std::min(next, posted.deadline);
    }
  }
  return next;
}

void Recvs::check_time(Nanoseconds now) {
  if (now < next_look_) {
    return;
  }
  std::vector<Key> late;
  for (const auto& [key, incoming] : incoming_) {
    if (now >= incoming.deadline) {
      late.push_back(key);
    }
  }
  for (const Key& key : late) {
    give_up(key, pair_is_late(incoming_.at(key).ticket->request()));
  }
  std::vector<TicketPtr> posted;
  for (auto& [tag, waiting] : waiting_) {
    std::erase_if(waiting.posted, [&](const Posted& each) {
      if (now < each.deadline) {
        return false;
      }
      posted.push_back(each.ticket);
      return true;
    });
  }
  if (!posted.empty()) {
    forget_empty();
  }
  for (const TicketPtr& ticket : posted) {
    context_.finish(ticket, pair_is_late(ticket->request()));
  }
  next_look_ = earliest();
}

bool Recvs::cancel(const Ticket& ticket, const Status& reason) {
  for (const auto& [key, incoming] : incoming_) {
    if (incoming.ticket.get() == &ticket) {
      give_up(Key(key), reason);
      return true;
    }
  }
  for (auto& [tag, waiting] : waiting_) {
    for (auto each = waiting.posted.begin(); each != waiting.posted.end(); ++each) {
      if (each->ticket.get() == &ticket) {
        const TicketPtr posted = each->ticket;
        waiting.posted.erase(each);
        forget_empty();
        context_.finish(posted, reason.with_tensor(posted->name()));
        return true;
      }
    }
  }
  return false;
}

void Recvs::close(const Status& reason) {
  const std::map<Tag, Waiting> waiting = std::exchange(waiting_, {});
  for (const auto& [tag, each] : waiting) {
    for (const Incoming& incoming : each.offers) {
      refuse(incoming.from, incoming.offer.id, reason);
    }
    for (const Posted& posted : each.posted) {
      context_.finish(posted.ticket, reason.with_tensor(posted.ticket->name()));
    }
  }
}

void Recvs::part_with(int peer, const Status& reason, const std::function<bool(const Request&)>& in_vain) {
  std::vector<TicketPtr> ended;
  for (auto& [tag, waiting] : waiting_) {
    std::erase_if(waiting.offers, [&](const Incoming& incoming) {
      if (incoming.from == peer) {
        refuse(peer, incoming.offer.id, reason);
      }
      return incoming.from == peer;
    });
    std::erase_if(waiting.posted, [&](const Posted& posted) {
      const bool ends = in_vain(posted.ticket->request());
      if (ends) {
        ended.push_back(posted.ticket);
      }
      return ends;
    });
  }
  forget_empty();
  for (const TicketPtr& ticket : ended) {
    context_.finish(ticket, reason.with_tensor(ticket->name()));
  }
}

void Recvs::end_with(int peer, const Status& reason) {
  std::vector<TicketPtr> ended;
  std::erase_if(incoming_, [&](const auto& each) {
    if (each.second.from == peer) {
      ended.push_back(each.second.ticket);
    }
    return each.second.from == peer;
  });
  for (const TicketPtr& ticket : ended) {
    context_.finish(ticket, reason.with_tensor(ticket->name()));
  }
}

void Recvs::abandon(std::vector<TicketPtr>& tickets) {
  for (const auto& [key, incoming] : incoming_) {
    tickets.push_back(incoming.ticket);
  }
  for (const auto& [tag, waiting] : waiting_) {
    for (const Posted& posted : waiting.posted) {
      tickets.push_back(posted.ticket);
    }
  }
  incoming_.clear();
  waiting_.clear();
  next_look_ = kNever;
}

bool Recvs::has_business_with(int peer) const {
  return std::any_of(incoming_.begin(), incoming_.end(), [peer](const auto& each) { return each.second.from == peer; });
}

}  // namespace ronde::engine
