// The job's store on another host: ranks there connect to a Unix socket of their agent's, and what they and the
// launcher's store say to each other travels in the agent's frames. So nothing of the store listens on a network, and
// who may reach it is who may log in. Nothing is looked at on the way: ranks and store prove their key to each other.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "launch/frame_pipe.h"
#include "store/packet_socket.h"

namespace ronde::launch {

/// One end of the connections of one host; never blocks. One thread.
class StoreRelay {
 public:
  /// The agent's end: accepts connections of this user's at these sockets.
  static StoreRelay of_agent(std::vector<UniqueFd> listeners);
  /// The launcher's: connects to the store's socket for each connection that an agent opens.
  static StoreRelay of_launcher(std::string socket_path);

  void watch(std::vector<pollfd>& entries) const;
  /// Moves what has come on sockets into frames. Requires: entries of watch().
  void move(const std::vector<pollfd>& entries, FramePipe& frames);
  /// Takes a frame of the kinds open, packet and close_it.
  void take(const Frame& frame, FramePipe& frames);

 private:
  /// More than a store serves would be refused there.
  static constexpr std::size_t kMaxConnections = 4096;

  StoreRelay() = default;
  void accept_some(int listener, FramePipe& frames);
  void open(std::uint64_t id, FramePipe& frames);
  /// Sends what waits for room; false if the connection has gone.
  bool push(std::uint64_t id, FramePipe& frames);
  void drop(std::uint64_t id, FramePipe& frames);

  struct Connection {
    store::PacketSocket socket;
    std::vector<std::string> waiting;  ///< packets that found no room, in their order
  };

  std::vector<UniqueFd> listeners_;
  std::string socket_path_;
  std::map<std::uint64_t, Connection> connections_;
  std::uint64_t next_id_ = 1;
};

}  // namespace ronde::launch
