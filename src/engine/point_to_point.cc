#include "engine/point_to_point.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace ronde::engine {

namespace {

constexpr std::size_t kBudgetBytes = std::size_t{1} << 20;
/// What goes in the offer itself: shorter than the exchange of two messages takes.
constexpr std::size_t kShortBytes = 2048;
/// What goes in one message where there is no heap: little through rings in shared memory, which are small.
constexpr std::size_t kPayloadBytes = 4096;
constexpr std::size_t kSlotBytes = std::size_t{128} << 10;
constexpr int kSlots = 4;

/// "send 'x' of float32 [3]"
std::string text_of(std::string_view what, const std::string& name, DType dtype, const Shape& shape) {
  return std::string(what) + " '" + name + "' of " + std::string(dtype_name(dtype)) + " " + shape_text(shape);
}

std::string text_of(const Request& request) {
  const Tensor& tensor = request.tensors.front().input;
  return text_of(op_name(request.kind), request.name, tensor.dtype, tensor.shape);
}

const Tensor& tensor_of(const Ticket& ticket) { return ticket.request().tensors.front().input; }

std::byte* data_of(const Ticket& ticket) { return static_cast<std::byte*>(tensor_of(ticket).data); }

std::size_t bytes_of(const control::OfferMessage& offer) {
  return static_cast<std::size_t>(element_count(offer.shape)) * dtype_bytes(offer.dtype);
}

}  // namespace

bool PointToPoint::takes_from(const Ticket& recv, int from) const {
  return recv.request().root == kAnySource || recv.request().root == rank_of(from);
}

Status PointToPoint::damaged(int from, const std::string& what) const {
  return Status::error(Code::internal, "rank " + std::to_string(rank_of(from)) + " has sent " + what +
                                           ": its memory, or this rank's, is damaged")
      .with_rank(rank_of(from));
}

// ---- Meeting

void PointToPoint::submit(const TicketPtr& ticket, Nanoseconds now) {
  const Request& request = ticket->request();
  if (const Status refusal = closed_ ? why_in_vain(request) : closed_; !refusal) {
    finish_(ticket, refusal.with_tensor(ticket->name()).with_context("'" + ticket->name() + "'"));
    return;
  }
  if (request.kind == OpKind::send) {
    send_offer(ticket, now);
    return;
  }
  Waiting& waiting = waiting_[{request.group, request.tag}];
  const auto found = std::find_if(waiting.offers.begin(), waiting.offers.end(),
                                  [&](const Incoming& incoming) { return takes_from(*ticket, incoming.from); });
  if (found == waiting.offers.end()) {
    waiting.posted.push_back({ticket, until(now, *ticket)});
    return;
  }
  Incoming incoming = std::move(*found);
  waiting.offers.erase(found);
  if (waiting.posted.empty() && waiting.offers.empty()) {
    waiting_.erase({request.group, request.tag});
  }
  match(std::move(incoming), ticket, now);
}

void PointToPoint::send_offer(const TicketPtr& ticket, Nanoseconds now) {
  const Request& request = ticket->request();
  const Tensor& tensor = tensor_of(*ticket);
  const int to = group_.index_of(request.root);
  const std::uint64_t id = next_id_++;
  control::OfferMessage offer{id, request.group, request.tag, tensor.dtype, tensor.shape, request.name, {}};
  if (tensor.bytes() <= kShortBytes) {
    offer.payload.assign(static_cast<const char*>(tensor.data), tensor.bytes());
  }
  outgoing_[id] = {.ticket = ticket, .to = to, .bytes = tensor.bytes(), .deadline = until(now, *ticket)};
  control_.send(to, {group_.id, std::move(offer)});
}

Status PointToPoint::read(int from, control::OfferMessage message, Nanoseconds now) {
  if (dtype_bytes(message.dtype) == 0 ||
      (bytes_of(message) <= kShortBytes && message.payload.size() != bytes_of(message))) {
    return damaged(from, "an offer that cannot be");
  }
  Incoming incoming;
  incoming.from = from;
  incoming.offer = std::move(message);
  incoming.offer.group = group_.id;  // the sender may know the group by another number
  const Status& gone = gone_[static_cast<std::size_t>(from)];
  if (!closed_ || !gone) {
    refuse(incoming, closed_ ? gone : closed_);
    return {};
  }
  const Tag tag{incoming.offer.group, incoming.offer.tag};
  Waiting& waiting = waiting_[tag];
  const auto found = std::find_if(waiting.posted.begin(), waiting.posted.end(),
                                  [&](const Posted& posted) { return takes_from(*posted.ticket, from); });
  if (found == waiting.posted.end()) {
    waiting.offers.push_back(std::move(incoming));
    return {};
  }
  const TicketPtr ticket = std::move(found->ticket);
  waiting.posted.erase(found);
  if (waiting.posted.empty() && waiting.offers.empty()) {
    waiting_.erase(tag);
  }
  match(std::move(incoming), ticket, now);
  return {};
}

void PointToPoint::match(Incoming incoming, const TicketPtr& ticket, Nanoseconds now) {
  const Tensor& tensor = tensor_of(*ticket);
  const control::OfferMessage& offer = incoming.offer;
  ticket->set_source(rank_of(incoming.from));
  if (tensor.dtype != offer.dtype || tensor.elements() != element_count(offer.shape)) {
    const std::string what = text_of("send", offer.name, offer.dtype, offer.shape) + " from rank " +
                             std::to_string(rank_of(incoming.from)) + " does not fit " + text_of(ticket->request()) +
                             " on rank " + std::to_string(rank_of(peers_.self())) + " (tag " +
                             std::to_string(offer.tag) + "): they must have the same data type and number of elements";
    control_.send(incoming.from, {group_.id, control::GiveUpMessage{offer.id, false, Code::mismatch, what, -1}});
    finish_(ticket, Status::error(Code::mismatch, what).with_tensor(ticket->name()));
    return;
  }
  incoming.ticket = ticket;
  incoming.deadline = until(now, *ticket);
  const Key key{incoming.from, offer.id};
  Incoming& kept = incoming_[key] = std::move(incoming);
  if (bytes_of(kept.offer) > kShortBytes) {
    control_.send(kept.from, {group_.id, control::AcceptMessage{kept.offer.id}});
    return;
  }
  if (!kept.offer.payload.empty()) {
    std::memcpy(data_of(*ticket), kept.offer.payload.data(), kept.offer.payload.size());
  }
  kept.received = kept.offer.payload.size();
  received(key, kept);
}

// ---- The sender's side

Status PointToPoint::read(int from, const control::AcceptMessage& message, Nanoseconds now) {
  const auto found = outgoing_.find(message.id);
  if (found == outgoing_.end()) {
    return {};
  }
  Outgoing& outgoing = found->second;
  if (outgoing.to == from && outgoing.given_up) {
    return {};  // which the receiver is about to read
  }
  if (outgoing.to != from || outgoing.accepted) {
    return damaged(from, "an answer to what it was not asked");
  }
  outgoing.accepted = true;
  ++accepted_;
  outgoing.deadline = until(now, *outgoing.ticket);
  return {};
}

bool PointToPoint::open(Staging& staging) {
  if (arena_ != nullptr && !staging.memory && !staging.refused) {
    Result<std::shared_ptr<void>> memory = heap_.allocate(kSlots * kSlotBytes);
    staging.refused = !memory;
    if (memory) {
      staging.memory = std::move(*memory);
      staging.place = arena_->heap_offset_of(staging.memory.get(), kSlots * kSlotBytes);
      for (int slot = kSlots - 1; slot >= 0; --slot) {
        staging.free.push_back(slot);
      }
    }
  }
  return staging.memory != nullptr;
}

/// False if there is no room for the next piece just now.
bool PointToPoint::send_piece(std::uint64_t id, Outgoing& outgoing) {
  Staging& staging = staging_[static_cast<std::size_t>(outgoing.to)];
  const std::size_t left = outgoing.bytes - outgoing.sent;
  const std::byte* const from = data_of(*outgoing.ticket) + outgoing.sent;
  control::PieceMessage piece{.id = id};
  if (open(staging)) {
    if (staging.free.empty()) {
      return false;
    }
    const int slot = staging.free.back();
    staging.free.pop_back();
    const std::size_t at = static_cast<std::size_t>(slot) * kSlotBytes;
    piece.bytes = std::min(left, kSlotBytes);
    piece.place = staging.place + static_cast<std::int64_t>(at);
    std::memcpy(static_cast<std::byte*>(staging.memory.get()) + at, from, piece.bytes);
    outgoing.slots.emplace_back(outgoing.sent + piece.bytes, slot);
  } else {
    if (!control_.flush(outgoing.to)) {
      return false;  // the ring is full; the receiver rings when it has made room
    }
    piece.bytes = std::min(left, arena_ == nullptr ? kSlotBytes : kPayloadBytes);
    piece.payload.assign(reinterpret_cast<const char*>(from), piece.bytes);
  }
  outgoing.sent += piece.bytes;
  control_.send(outgoing.to, {group_.id, std::move(piece)});
  return true;
}

bool PointToPoint::send_pieces(std::uint64_t id, Outgoing& outgoing, std::size_t& budget, Nanoseconds now) {
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

Status PointToPoint::read(int from, const control::TakenMessage& message, Nanoseconds now) {
  const auto found = outgoing_.find(message.id);
  if (found == outgoing_.end()) {
    return {};
  }
  Outgoing& outgoing = found->second;
  const std::size_t told = outgoing.bytes > kShortBytes ? outgoing.sent : outgoing.bytes;
  if (outgoing.to != from || message.bytes < outgoing.taken || message.bytes > told) {
    return damaged(from, "word of more bytes than there were");
  }
  outgoing.taken = message.bytes;
  if (!outgoing.given_up) {
    outgoing.deadline = until(now, *outgoing.ticket);
  }
  while (!outgoing.slots.empty() && outgoing.slots.front().first <= outgoing.taken) {
    staging_[static_cast<std::size_t>(from)].free.push_back(outgoing.slots.front().second);
    outgoing.slots.pop_front();
  }
  if (outgoing.taken == outgoing.bytes) {
    forget(message.id, {});
  }
  return {};
}

/// Drops a send, which the receiver touches no more, and ends its ticket if it still has one.
void PointToPoint::forget(std::uint64_t id, const Status& outcome) {
  const auto found = outgoing_.find(id);
  Outgoing outgoing = std::move(found->second);
  outgoing_.erase(found);
  accepted_ -= outgoing.accepted ? 1 : 0;
  asked_ -= outgoing.given_up && outgoing.ticket ? 1 : 0;
  for (const auto& [end, slot] : outgoing.slots) {
    staging_[static_cast<std::size_t>(outgoing.to)].free.push_back(slot);
  }
  if (outgoing.ticket) {
    finish_(outgoing.ticket, outcome);
  }
}

// ---- The receiver's side

Status PointToPoint::read(int from, control::PieceMessage message, Nanoseconds now) {
  const auto found = incoming_.find({from, message.id});
  if (found == incoming_.end()) {
    return {};  // it was given up here, which the sender is about to read
  }
  Incoming& incoming = found->second;
  std::size_t told = incoming.received;
  for (const control::PieceMessage& piece : incoming.pieces) {
    told += piece.bytes;
  }
  const auto heap = arena_ == nullptr ? 0 : static_cast<std::int64_t>(arena_->layout().heap_bytes);
  const bool in_heap = message.place != kNoOffset;
  const bool lies_well = in_heap ? message.place >= 0 && message.place <= heap &&
                                       message.bytes <= static_cast<std::uint64_t>(heap - message.place)
                                 : message.bytes == message.payload.size();
  if (message.bytes == 0 || message.bytes > bytes_of(incoming.offer) - told || !lies_well) {
    return damaged(from, "a piece of a message that cannot be");
  }
  incoming.pieces.push_back(std::move(message));
  incoming.deadline = until(now, *incoming.ticket);
  return {};
}

void PointToPoint::received(const Key& key, Incoming& incoming) {
  control_.send(key.first, {group_.id, control::TakenMessage{key.second, incoming.received}});
  if (incoming.received == bytes_of(incoming.offer)) {
    const TicketPtr ticket = incoming.ticket;
    incoming_.erase(key);
    finish_(ticket, {});
  }
}

bool PointToPoint::advance(Nanoseconds now) {
  std::size_t budget = kBudgetBytes;
  bool moved = false;
  for (auto next = incoming_.begin(); next != incoming_.end() && budget > 0;) {
    const auto current = next++;  // received() may erase it
    Incoming& incoming = current->second;
    const Key key = current->first;
    while (!incoming.pieces.empty() && budget > 0) {
      const control::PieceMessage piece = std::move(incoming.pieces.front());
      incoming.pieces.pop_front();
      const void* const from = piece.place == kNoOffset ? static_cast<const void*>(piece.payload.data())
                                                        : arena_->heap(key.first) + piece.place;
      std::memcpy(data_of(*incoming.ticket) + incoming.received, from, piece.bytes);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (peers_.has_given_up(key.first)) {
        break;  // its slots may hold anything by now; it has gone, which ends this recv
      }
      incoming.received += piece.bytes;
      incoming.deadline = until(now, *incoming.ticket);
      budget -= std::min<std::size_t>(budget, piece.bytes);
      moved = true;
      const bool is_last = incoming.received == bytes_of(incoming.offer);
      received(key, incoming);
      if (is_last) {
        break;
      }
    }
  }
  for (auto& [id, outgoing] : outgoing_) {
    if (accepted_ == 0 || budget == 0) {
      break;
    }
    moved |= send_pieces(id, outgoing, budget, now);
  }
  return moved;
}

// ---- Time

/// The request's limit, from now on.
Nanoseconds PointToPoint::until(Nanoseconds now, const Ticket& ticket) {
  const Nanoseconds deadline = later(now, ticket.request().timeout);
  next_look_ = std::min(next_look_, deadline);
  return deadline;
}

Status PointToPoint::late(const Ticket& ticket) const {
  const Request& request = ticket.request();
  const bool sends = request.kind == OpKind::send;
  const std::string peer = request.root == kAnySource ? "no rank" : "rank " + std::to_string(request.root);
  std::string seconds = std::to_string(static_cast<double>(request.timeout) / static_cast<double>(kSecond));
  seconds.erase(seconds.find('.') + 2);
  return Status::error(Code::timed_out,
                       "Timed out after " + seconds + " s in " + text_of(request) + (sends ? " to " : " from ") +
                           (request.root == kAnySource ? "any rank" : peer) + ", tag " + std::to_string(request.tag) +
                           ": " + peer + (request.root == kAnySource ? " has" : " has not") +
                           (sends ? " received it" : " sent it") +
                           "; raise the timeout (RONDE_TIMEOUT_S) if it may take longer")
      .with_rank(request.root)
      .with_tensor(request.name);
}

Nanoseconds PointToPoint::earliest() const {
  Nanoseconds next = kNever;
  for (const auto& [id, outgoing] : outgoing_) {
    next = std::min(next, outgoing.deadline);
  }
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

void PointToPoint::check_time(Nanoseconds now) {
  if (now < next_look_) {
    return;
  }
  std::vector<std::uint64_t> sends;
  for (const auto& [id, outgoing] : outgoing_) {
    if (now >= outgoing.deadline) {
      sends.push_back(id);
    }
  }
  for (const std::uint64_t id : sends) {
    const Outgoing& outgoing = outgoing_.at(id);
    give_up_send(id, outgoing.given_up ? outgoing.reason : late(*outgoing.ticket), Ending::now);
  }
  std::vector<Key> recvs;
  for (const auto& [key, incoming] : incoming_) {
    if (now >= incoming.deadline) {
      recvs.push_back(key);
    }
  }
  for (const Key& key : recvs) {
    give_up_recv(key, late(*incoming_.at(key).ticket));
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
    finish_(ticket, late(*ticket));
  }
  next_look_ = earliest();
}

}  // namespace ronde::engine
