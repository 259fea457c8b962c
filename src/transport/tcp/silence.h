// Silence: tells a host that has vanished from a process that is stopped or slow. The kernel of a host that is there
// acknowledges what it gets and answers what asks it for room, whatever its processes do; so how long it has owed an
// answer says whether it is there, and no byte of ours is needed.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "transport/host_timeout.h"

namespace ronde::transport {

/// What the kernel here knows of a connected TCP socket.
struct Owed {
  bool under_way = false;      ///< bytes that the peer's kernel has not acknowledged yet, sent or not
  bool is_asked = false;       ///< the peer's kernel has been sent what it must answer, and has not answered
  Nanoseconds asked_every{};   ///< how long the kernel here lets pass before it sends that again
  Nanoseconds heard_before{};  ///< so long ago something last came from the peer's kernel, be it for the second time
  /// Grows with what comes that is new: of a host that hears nothing any more comes only what it has said before.
  /// Kernels before Linux 4.6 do not tell.
  std::optional<std::uint64_t> news;
};

/// Of a socket that is no TCP socket: nothing is under way.
Owed owed_by(int socket);

/// The kernel's own watch over a connection of which nothing is under way, and the longest that it lets pass before it
/// asks again where something is. Kernels before Linux 6.15 have no such: there a host that vanishes after a process of
/// it was stopped for long is noticed later.
void have_kernel_watch(int socket, const HostTimeout& timeout);

/// Of one connection, which the kernel watches too.
class Silence {
 public:
  /// Takes in what is owed now. True if the peer's host has vanished:
  /// - nothing new has come from it for longest_silence(), and
  /// - it has owed an answer for at least a tick, and
  /// - it was asked again meanwhile. The kernel here asks ever less often while the peer has no room, as where its
  ///   process is stopped.
  bool look(const Owed& owed, Nanoseconds now, const HostTimeout& timeout);

 private:
  Nanoseconds asked_since_ = kNever;
  Nanoseconds heard_at_ = 0;
  std::optional<std::uint64_t> news_;
};

}  // namespace ronde::transport
