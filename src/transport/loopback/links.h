// Loopback links: messages between ranks that are engines in one process, for tests of all that travels as messages.
// Links have little room, so that ranks meet full ones, and a test may hold what is under way between two ranks, which
// makes any order between links possible, or cut a rank off, which is how the death of a host looks. What is lent to a
// link it reads as late as it may, so that who writes over it is found out.
#pragma once

#include <cstddef>
#include <memory>

#include "base/clock.h"
#include "transport/transport.h"

namespace ronde::transport {

/// Must outlive what uses its transports, each of which belongs to one thread at a time. Everything else: any thread.
class LoopbackNet {
 public:
  /// `room`: messages that one link takes until the reader has received some.
  explicit LoopbackNet(int size, std::size_t room = 4);
  ~LoopbackNet();
  LoopbackNet(const LoopbackNet&) = delete;
  LoopbackNet& operator=(const LoopbackNet&) = delete;

  int size() const;
  Transport& transport(int rank);
  /// Nothing that `from` has sent or sends comes to `to` until it is released.
  void hold(int from, int to);
  void release(int from, int to);
  void release_all();
  /// The rank's process has ended: what is under way from it still comes, what is sent to it or by it from now on is
  /// lost.
  void cut(int rank);
  /// How often something has become receivable by this rank, or room was made in a full link of its own.
  std::uint64_t news(int rank) const;
  /// Waits until there are more news than `seen`; false if the limit has passed.
  bool wait_for_news(int rank, std::uint64_t seen, Nanoseconds limit);

 private:
  class Net;
  std::unique_ptr<Net> net_;
};

}  // namespace ronde::transport
