// Transport: makes Links. Link: moves whole messages between two ranks, in order, none lost while both live.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"

namespace ronde::transport {

/// The longest message a link carries; a longer one announced by a peer is taken as damage.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;

/// One end of a duplex message pipe to one peer. Called by whoever holds the engine's progress lock; never blocks.
class Link {
 public:
  virtual ~Link() = default;
  /// Takes the message whole: what has no room in the pipe is kept and goes out by flush(). Wakes the peer.
  /// Requires: at most kMaxMessageBytes.
  virtual void send(std::span<const std::byte> message) = 0;
  /// Moves kept bytes into the pipe; true once nothing is kept. While something is kept, this rank's bell rings when
  /// the peer has made room: flush again then.
  virtual bool flush() = 0;
  /// The next whole message into `message`; false if none has arrived.
  virtual bool receive(std::vector<std::byte>& message) = 0;
  /// Ok, or why this link is unusable for good: the peer's side of it is damaged. Then messages are dropped and none
  /// arrive. The death of a peer does not show here.
  virtual Status status() const { return {}; }
  /// The peer's end has closed, by its own will or with its process, and all that it had sent was received. Never true
  /// of a link that cannot tell.
  virtual bool has_ended() const { return false; }
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// The link to another rank of the world. Requires: peer is not this rank. Owned by the transport.
  virtual Link& link(int peer) = 0;
  /// Sees what has come since. Links that must ask the kernel receive nothing that comes later.
  virtual void look() {}
  /// A descriptor that is readable when something has come, or room was made for what a link keeps, since the last
  /// look(); -1 if the rank's bell rings for that. Owned by the transport.
  virtual int news_fd() const { return -1; }
};

}  // namespace ronde::transport
