// One packet of a SOCK_SEQPACKET Unix socket: bytes that arrive whole or not at all, with descriptors.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/unique_fd.h"

namespace ronde::store {

/// How a call on a socket that does not block ended.
enum class PacketResult {
  done,
  again,    ///< would block: poll first
  crowded,  ///< the kernel holds too many descriptors on their way already: try again in a moment
  closed,   ///< the other side has closed, or the socket is broken (errno says how)
  bad,      ///< received: longer than the buffer, or descriptors were lost since this process has too many open
};

/// Sends without SIGPIPE. Requires: at most kMaxDescriptors descriptors; they stay the caller's. An empty packet would
/// read as the end of the stream: never send one.
PacketResult send_packet(int socket, std::span<const std::byte> bytes, std::span<const UniqueFd> descriptors = {});

struct Packet {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;  ///< all close-on-exec
};
/// Receives a packet of at most `limit` bytes with at most `max_descriptors` descriptors (kMaxDescriptors or 0).
/// Whatever arrives beyond that is closed, and the packet is `bad`.
PacketResult receive_packet(int socket, std::size_t limit, std::size_t max_descriptors, Packet& packet);

}  // namespace ronde::store
