#include "transport/messages/mailbox.h"

#include <cstring>
#include <string>
#include <utility>

namespace ronde::transport {

namespace {

/// What precedes a payload; so long that the payload is aligned for every element.
struct Header {
  std::uint32_t collective;
  std::uint32_t stage;
  std::uint64_t instance;
  std::uint64_t mark;
  std::uint64_t payload_bytes;
};
static_assert(sizeof(Header) == kBeginningBytes);

Header header_of(const MessageKey& key, std::uint64_t mark, std::size_t payload_bytes) {
  return {key.collective, key.stage, key.instance, mark, payload_bytes};
}

/// In place of a collective.
constexpr std::uint32_t kNotes = ~std::uint32_t{0};

}  // namespace

Mailbox::Mailbox(Transport* links, int rank, int size) : links_(links), rank_(rank), size_(size), arrived_(size) {}

bool Mailbox::flush() {
  bool all = true;
  for (int peer = 0; peer < size_; ++peer) {
    all = (peer == rank_ || has_room(peer)) && all;
  }
  return all;
}

std::span<std::byte> Mailbox::compose(std::size_t bytes) {
  outgoing_.resize(sizeof(Header) + bytes);
  return std::span(outgoing_).subspan(sizeof(Header));
}

void Mailbox::send(int to, const MessageKey& key, std::uint64_t mark) {
  const Header header = header_of(key, mark, outgoing_.size() - sizeof(Header));
  std::memcpy(outgoing_.data(), &header, sizeof header);
  links_->link(to).send(outgoing_);
}

void Mailbox::send_lent(int to, const MessageKey& key, std::uint64_t mark, Parts payload) {
  Header header = header_of(key, mark, 0);
  parts_.assign(1, {});
  for (const std::span<const std::byte> part : payload) {
    header.payload_bytes += part.size();
    parts_.push_back(part);
  }
  parts_[0] = std::as_bytes(std::span(&header, 1));
  links_->link(to).send_lent(parts_);
}

void Mailbox::keep_lent() {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) {
      links_->link(peer).keep_lent();
      links_->link(peer).forget_places();
    }
  }
}

void Mailbox::drop_lent() {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) {
      links_->link(peer).drop_lent();
      links_->link(peer).forget_places();
    }
  }
}

void Mailbox::expect_at(int from, const MessageKey& key, std::uint64_t mark, std::span<std::byte> place) {
  const Header header = header_of(key, mark, place.size());
  links_->link(from).expect_at(std::as_bytes(std::span(&header, 1)), place);
}

void Mailbox::forget_place(int from, const MessageKey& key, std::uint64_t mark, std::size_t bytes) {
  const Header header = header_of(key, mark, bytes);
  links_->link(from).forget_place(std::as_bytes(std::span(&header, 1)));
}

void Mailbox::send_note(int to) { send(to, {kNotes, 0, 0}); }

bool Mailbox::take(int from, const MessageKey& key, Received& message) {
  return arrived_.take(from, key, message) || (receive_from(from) && arrived_.take(from, key, message));
}

bool Mailbox::receive() {
  if (links_ != nullptr) {
    links_->look();
  }
  bool received = false;
  for (int peer = 0; peer < size_; ++peer) {
    received = (peer != rank_ && receive_from(peer)) || received;
  }
  return received;
}

bool Mailbox::receive_from(int peer) {
  bool received = false;
  while (status_.is_ok() && links_->link(peer).receive(incoming_)) {
    Header header{};
    if (incoming_.size() >= sizeof header) {
      std::memcpy(&header, incoming_.data(), sizeof header);
    }
    const bool is_placed = incoming_.size() == sizeof header && header.payload_bytes > 0 &&
                           links_->link(peer).take_placed(incoming_);
    if (incoming_.size() < sizeof header ||
        (header.payload_bytes != incoming_.size() - sizeof header && !is_placed)) {
      status_ = Status::error(Code::internal, "rank " + std::to_string(peer) + " has sent " +
                                                  std::to_string(incoming_.size()) +
                                                  " bytes that are no message of a collective");
      return received;
    }
    received = true;
    if (header.collective == kNotes) {
      if (read_note_) {
        const std::vector<std::byte> note = std::exchange(incoming_, {});  // who reads it may send
        read_note_(peer, std::span(note).subspan(sizeof header));
      }
      continue;
    }
    const MessageKey key{header.collective, header.stage, header.instance};
    if (arrived_.is_forgotten(key)) {
      continue;
    }
    Received message{std::exchange(incoming_, {}), {}, header.mark, is_placed};
    message.payload = std::span(message.memory).subspan(sizeof header);
    if (!arrived_.put(peer, key, std::move(message))) {
      status_ = Status::error(Code::internal, "rank " + std::to_string(peer) + " has sent a message twice");
      return received;
    }
  }
  status_ = status_.is_ok() ? links_->link(peer).status() : status_;
  return received;
}

}  // namespace ronde::transport
