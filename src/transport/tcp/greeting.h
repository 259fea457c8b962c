// Greeting: how the two ends of a new TCP connection prove to each other that they belong to one job, and which ranks
// of which meeting they are, before anything else is read from it:
//
//   who connects -> who listens   magic, nonce, its rank
//   who listens -> who connects   nonce, MAC
//   who connects -> who listens   MAC
//   who listens -> who connects   a byte: it has the connection
//
// Nonces and MACs are those of store/handshake.h, with a key for this meeting and these two ranks that is made from the
// job's. So what was recorded of one connection helps with no other. All frames have a fixed size.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/unique_fd.h"
#include "store/handshake.h"
#include "transport/tcp/tcp_connection.h"

namespace ronde::transport {

/// What the ends of a meeting's connections have in common.
struct TcpMeeting {
  JobKey key;
  std::string scope;
  int rank = 0;
  int size = 1;
};

enum class Greeted {
  not_yet,  ///< wait for its events
  done,     ///< the other end is who it says it is
  refused,  ///< it is not, has gone, or there was an error
};

/// One connection until it is proved. Never blocks.
class Greeting {
 public:
  /// Of a connection under way to the rank `to`, which listens.
  static Greeting to(UniqueFd socket, const TcpMeeting& meeting, int to);
  /// Of one that was accepted, from nobody knows whom.
  static Greeting from_anybody(UniqueFd socket, const TcpMeeting& meeting);

  /// Goes on as far as it can.
  Greeted advance();
  int socket() const { return socket_.get(); }
  /// To wait for, as poll() has them.
  short events() const;
  /// The rank at the other end, once it is done.
  int peer() const { return peer_; }
  /// Requires: it is done.
  TcpConnection take();

 private:
  enum class Phase { connecting, greeting, answering, proving, proved, done };

  Greeting(UniqueFd socket, const TcpMeeting& meeting, Phase phase, int peer);
  Greeted read(std::size_t bytes);
  bool write(std::span<const std::byte> bytes);
  Greeted read_greeting();
  Greeted read_answer();
  Greeted read_proof();
  Greeted read_welcome();
  bool greet();
  JobKey key_with(int listener, int caller) const;

  UniqueFd socket_;
  const TcpMeeting* meeting_;
  Phase phase_;
  int peer_;
  JobKey key_;
  store::Nonce callers_{};
  store::Nonce listeners_{};
  std::vector<std::byte> got_;
};

}  // namespace ronde::transport
