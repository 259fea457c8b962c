// Transport: makes Links. Link: moves whole messages between two ranks, in order, none lost while both live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace ronde::transport {

/// The longest message a link carries; a longer one announced by a peer is taken as damage.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;

/// How many bytes a message that is expected (Link::expect_at()) is known by.
inline constexpr std::size_t kBeginningBytes = 32;

/// Bytes that lie in several places, one after the other.
using Parts = std::span<const std::span<const std::byte>>;

/// One end of a duplex message pipe to one peer. Called by whoever holds the engine's progress lock; never blocks.
class Link {
 public:
  virtual ~Link() = default;
  /// Takes the message whole: what has no room in the pipe is kept and goes out by flush(). Wakes the peer.
  /// Requires: at most kMaxMessageBytes.
  virtual void send(std::span<const std::byte> message) = 0;
  /// The same for a message that lies in parts.
  virtual void send_parts(Parts parts) {
    std::vector<std::byte> message;
    for (const std::span<const std::byte> part : parts) {
      message.insert(message.end(), part.begin(), part.end());
    }
    send(message);
  }
  /// The same, but what has no room in the pipe is not copied: the link reads it later from where it lies. It is lent:
  /// the caller leaves it there unchanged until flush() says true or keep_lent() was called. The first part, a header,
  /// is copied always.
  virtual void send_lent(Parts parts) { send_parts(parts); }
  /// Copies what is lent, so that its owner may change it.
  virtual void keep_lent() {}
  /// The memory of what is lent is about to go. If something is lent still, the message ends in the middle, and this
  /// link sends nothing more.
  virtual void drop_lent() {}
  /// Takes memory for large messages to come, which need none of their own then.
  virtual void recycle(std::vector<std::byte>&&) {}
  /// A message may come that begins with these kBeginningBytes, has as many more as `place`, and is the only one of
  /// the link that begins so. Then receive() may give out its beginning only, with the rest in its place: take_placed()
  /// tells. Until then, or until forget_place() or forget_places(), the link may write to the place, also what comes of
  /// a message that never comes whole.
  virtual void expect_at(std::span<const std::byte> /*beginning*/, std::span<std::byte> /*place*/) {}
  /// Of a message that receive() has given out: whether its rest lies in its place. Says so once.
  virtual bool take_placed(std::span<const std::byte> /*beginning*/) { return false; }
  /// The link writes no more to the place of the message that begins so. What has come of it is kept.
  virtual void forget_place(std::span<const std::byte> /*beginning*/) {}
  /// Of all that is expected.
  virtual void forget_places() {}
  /// Moves kept and lent bytes into the pipe; true once there are none. While something is kept, this rank's bell rings
  /// when the peer has made room: flush again then.
  virtual bool flush() = 0;
  /// The next whole message into `message`; false if none has arrived.
  virtual bool receive(std::vector<std::byte>& message) = 0;
  /// Ok, or why this link is unusable for good: the peer's side of it is damaged. Then messages are dropped and none
  /// arrive. The death of a peer does not show here.
  virtual Status status() const { return {}; }
  /// The peer's end has closed, by its own will or with its process, and all that it had sent was received. Never true
  /// of a link that cannot tell.
  virtual bool has_ended() const { return false; }
  /// Why it has ended, to be told beside the peer's name, as "its connection was reset"; empty if the peer has closed
  /// it.
  virtual std::string end_cause() const { return {}; }
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// The link to another rank of the world. Requires: peer is not this rank. Owned by the transport.
  virtual Link& link(int peer) = 0;
  /// Sees what has come since the last call. Links that must ask the kernel receive only what has come by then. A
  /// group's transport does nothing here: the job's engine, which is stepped before any group's, looks for all.
  virtual void look() {}
  /// A descriptor that is readable when something has come, or room was made for what a link keeps, since the last
  /// look(), of which the rank's bell does not ring; -1 if it rings for all. Owned by the transport.
  virtual int news_fd() const { return -1; }
  /// The end of a process in which the transport lives on: sends what is kept, and waits until the peers have taken all
  /// that may still lie in this process, two seconds at most. What arrives meanwhile is dropped. Nothing is sent or
  /// received afterwards, by a group's transport over the same connections neither. False: the time was over first. Any
  /// thread.
  virtual bool finish() { return true; }
};

/// What a group's members send each other through. What a member sends in one after something in the other is received
/// in that order, and a look() or the news_fd() of `data` serves both.
struct GroupLinks {
  std::shared_ptr<Transport> data;
  std::shared_ptr<Transport> agreement;
};

/// Further links over the connections that the ranks of a job have. Any thread.
class LinksForGroups {
 public:
  virtual ~LinksForGroups() = default;
  /// For a group of these ranks, in which link(i) leads to the i-th of them. `number`, not 0, is the same on all its
  /// members and that of no other group that one of them ever belongs to. `on_arrival`, which never blocks, is called
  /// whenever something has come for the group, or had come before, by whoever receives it for something else.
  virtual GroupLinks open(std::uint64_t number, const std::vector<int>& members, std::function<void()> on_arrival) = 0;
};

}  // namespace ronde::transport
