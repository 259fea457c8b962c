// Addresses of TCP sockets.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::store {

struct TcpAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
};

/// Of "host:port", "10.0.0.1:5000", "[fe80::1]:5000". INVALID_ARGUMENT if it is none of these.
Result<HostAndPort> parse_host_and_port(std::string_view text);

enum class HostIs { name_or_numbers, numbers };
/// At least one. INVALID_ARGUMENT with the host's name if it is not known.
Result<std::vector<TcpAddress>> resolve(const HostAndPort& where, HostIs host = HostIs::name_or_numbers);

/// A listening socket, close-on-exec and non-blocking, at the first of these addresses that is this host's.
Result<UniqueFd> listen_tcp(const HostAndPort& where, HostIs host = HostIs::name_or_numbers);
/// "10.0.0.1 port 5000"; "an unknown address" where it is empty.
std::string text_of(const TcpAddress& address);
/// A connection that waits at a listening socket, close-on-exec and non-blocking, and where it comes from; closed, with
/// errno, if there is none. Of a Unix socket's the address stays empty.
UniqueFd accept_from(int listener, TcpAddress& from);
/// The port at which a socket listens.
Result<std::uint16_t> port_of(int socket);

}  // namespace ronde::store
