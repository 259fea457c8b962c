// Transport: makes Links. Link: moves whole messages between two ranks, in order, none lost while both live.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ronde::transport {

/// One end of a duplex message pipe to one peer. Called by whoever holds the engine's progress lock; never blocks.
class Link {
 public:
  virtual ~Link() = default;
  /// Takes the message whole: what has no room in the pipe is kept and goes out by flush().
  virtual void send(std::span<const std::byte> message) = 0;
  /// Moves kept bytes into the pipe; true once nothing is kept.
  virtual bool flush() = 0;
  /// The next whole message into `message`; false if none has arrived.
  virtual bool receive(std::vector<std::byte>& message) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// The link to another rank of the world. Requires: peer is not this rank. Owned by the transport.
  virtual Link& link(int peer) = 0;
};

}  // namespace ronde::transport
