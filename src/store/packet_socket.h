// Packets on a socket: bytes that arrive whole or not at all. On Unix sockets (SOCK_SEQPACKET) the kernel keeps them
// apart and passes descriptors with them. On TCP (SOCK_STREAM) they are framed (packet_framing.h); once both sides have
// proved that they know the job's key, each is sealed (packet_seal.h) with keys that are made of the job's key and both
// nonces, so that nobody on the way can read, change, repeat or leave out any without ending the connection.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/forked_children.h"
#include "base/job_key.h"
#include "base/unique_fd.h"
#include "store/packet_framing.h"

namespace ronde::store {

/// How a call on a socket that does not block ended.
enum class PacketResult {
  done,
  again,    ///< would block: poll first
  crowded,  ///< the kernel holds too many descriptors on their way already: try again in a moment
  closed,   ///< the other side has closed, or the socket is broken (errno says how)
  bad,      ///< received: longer than allowed, damaged, or descriptors were lost since this process has too many open
};

struct Packet {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;  ///< all close-on-exec
};

/// One end. Never blocks.
class PacketSocket {
 public:
  PacketSocket() = default;
  /// Connected; of SOCK_SEQPACKET or SOCK_STREAM.
  explicit PacketSocket(UniqueFd socket);

  int get() const { return socket_.get(); }
  bool is_open() const { return socket_.is_open(); }
  void reset() {
    kept_from_children_.reset();
    socket_.reset();
  }
  /// Whether packets have descriptors here.
  bool is_of_this_host() const { return !is_stream_; }
  /// From now on packets of a stream are sealed. On others nothing happens: their kernel is trusted. Once.
  void seal(const JobKey& sending, const JobKey& receiving);

  /// Sends without SIGPIPE. Requires: at most kMaxDescriptors descriptors, none on a stream; they stay the caller's. An
  /// empty packet would read as the end of a Unix socket: never send one. `done`: it is on its way, or kept for
  /// flush().
  PacketResult send(std::span<const std::byte> bytes, std::span<const UniqueFd> descriptors = {});
  /// Sends what is kept: `again` while there is no room for it.
  PacketResult flush();
  /// Receives a packet of at most `limit` bytes with at most `max_descriptors` descriptors (kMaxDescriptors or 0).
  /// Whatever arrives beyond that is closed, and the packet is `bad`. Reads nothing of the next.
  PacketResult receive(std::size_t limit, std::size_t max_descriptors, Packet& packet);

 private:
  PacketResult receive_stream(std::size_t limit, Packet& packet);

  UniqueFd socket_;
  std::unique_ptr<KeptFromForkedChildren> kept_from_children_;  ///< of a stream
  bool is_stream_ = false;
  PacketFraming framing_;  ///< of a stream
};

}  // namespace ronde::store
