// Mailbox: one rank's messages to and from all others over their links. A link hands messages over in the order in
// which the peer sent them; what comes is kept under its key until somebody asks for it (arrived_messages.h).
//
// Notes are messages that belong to no collective: they are handed to whoever reads notes as soon as they are received,
// after all that the sender had sent before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "transport/messages/arrived_messages.h"
#include "transport/transport.h"

namespace ronde::transport {

/// Used under one lock. Never blocks.
class Mailbox {
 public:
  /// `links` must outlive this; it may be null in a world of one. Nobody else may receive from them.
  Mailbox(Transport* links, int rank, int size);
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Nothing is kept for lack of room in the link to the peer, so that more may be sent to it.
  bool has_room(int peer) { return links_->link(peer).flush(); }
  /// Moves what is kept into the links; true once nothing is.
  bool flush();
  /// Where to write the payload of the message that send() sends next.
  std::span<std::byte> compose(std::size_t bytes);
  void send(int to, const MessageKey& key, std::uint64_t mark = 0);
  /// Sends a payload that lies in parts. What the link has no room for is lent (Link::send_lent()): until has_room()
  /// says true of it, or keep_lent() was called, it stays as it is.
  void send_lent(int to, const MessageKey& key, std::uint64_t mark, Parts payload);
  /// Nothing is lent any more, and no place is written to.
  void keep_lent();
  /// What is lent is memory no more (Link::drop_lent()), nor are places.
  void drop_lent();
  /// The payload of the message of this key and mark, which is as long as `place`, may be written straight to there
  /// (Link::expect_at()): Received::is_placed tells. If it was not, forget_place() must follow.
  void expect_at(int from, const MessageKey& key, std::uint64_t mark, std::span<std::byte> place);
  /// Nothing is written to the place any more that was expected of so many bytes.
  void forget_place(int from, const MessageKey& key, std::uint64_t mark, std::size_t bytes);
  /// Memory of a message from this peer that is needed no more.
  void recycle(int from, std::vector<std::byte>&& memory) { links_->link(from).recycle(std::move(memory)); }
  /// Sends what was composed as a note.
  void send_note(int to);
  /// Called within receive() and take() for each note. Set once, before anything is received.
  using ReadNote = std::function<void(int from, std::span<const std::byte> note)>;
  void read_notes(ReadNote read) { read_note_ = std::move(read); }
  /// The message of this key from a peer, if it has come.
  bool take(int from, const MessageKey& key, Received& message);
  /// Whether one is kept under this key. Takes nothing in.
  bool has(int from, const MessageKey& key) const { return arrived_.has(from, key); }
  /// Forgets the messages of instances of a collective before this one, those that are yet to come too.
  void forget_before(std::uint32_t collective, std::uint64_t instance) { arrived_.forget_before(collective, instance); }
  /// Of a collective of which nothing comes any more.
  void forget(std::uint32_t collective) { arrived_.forget(collective); }
  /// Takes in what has come; true if anything has.
  bool receive();
  /// Nothing comes from the peer any more, and all that had come is received.
  bool has_ended(int peer) const { return links_->link(peer).has_ended(); }
  /// Why, if not because the peer has closed it; Link::end_cause().
  std::string end_cause(int peer) const { return links_->link(peer).end_cause(); }
  /// How many messages have come that nobody has asked for.
  std::size_t kept() const { return arrived_.count(); }
  /// A peer has sent what cannot be: nothing is received any more.
  void break_off(const Status& why) { status_ = status_.is_ok() ? why : status_; }
  /// Ok, or that a peer has sent what cannot be.
  const Status& status() const { return status_; }

 private:
  bool receive_from(int peer);

  Transport* links_;
  const int rank_;
  const int size_;
  std::vector<std::byte> outgoing_;
  std::vector<std::span<const std::byte>> parts_;
  std::vector<std::byte> incoming_;
  ArrivedMessages arrived_;
  ReadNote read_note_;
  Status status_;
};

}  // namespace ronde::transport
