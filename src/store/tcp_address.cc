#include "store/tcp_address.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

namespace ronde::store {

namespace {

constexpr int kTcpBacklog = 512;

}  // namespace

Result<HostAndPort> parse_host_and_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  HostAndPort parsed;
  bool is_good = colon != std::string_view::npos;
  if (is_good) {
    std::string_view host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    parsed.host = host;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, parsed.port);
    is_good = !host.empty() && error == std::errc() && rest == end && parsed.port > 0;
  }
  return is_good ? Result<HostAndPort>(parsed)
                 : Status::error(Code::invalid_argument, "'" + std::string(text) +
                                                             "' is no address; expected host:port, as in node1:29500, "
                                                             "10.0.0.1:29500 or [fe80::1]:29500");
}

Result<std::vector<TcpAddress>> resolve(const HostAndPort& where, HostIs host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICSERV | (host == HostIs::numbers ? AI_NUMERICHOST : 0);
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &found);
      error != 0) {
    return Status::error(Code::invalid_argument,
                         host == HostIs::numbers
                             ? "'" + where.host + "' is no address; expected numbers, as in 10.0.0.1 or fe80::1"
                             : "the host '" + where.host + "' is not known: " + ::gai_strerror(error));
  }
  std::vector<TcpAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    TcpAddress address;
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.bytes = each->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(found);
  return addresses;
}

Result<UniqueFd> listen_tcp(const HostAndPort& where, HostIs host) {
  RONDE_ASSIGN_OR_RETURN(const std::vector<TcpAddress> addresses, resolve(where, host));
  int failure = 0;
  for (const TcpAddress& address : addresses) {
    UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open()) {
      failure = errno;
      continue;
    }
    const int one = 1;
    // Connections of an earlier job that are not forgotten yet are no reason to refuse the next.
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (::bind(socket.get(), address.get(), address.bytes) == 0 && ::listen(socket.get(), kTcpBacklog) == 0) {
      return socket;
    }
    failure = errno;
  }
  return Status::from_errno(
      "listening at " + where.host + (where.port == 0 ? "" : " port " + std::to_string(where.port)), failure);
}

std::string text_of(const TcpAddress& address) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (address.bytes == 0 || ::getnameinfo(address.get(), address.bytes, host, sizeof host, port, sizeof port,
                                          NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  return std::string(host) + " port " + port;
}

UniqueFd accept_from(int listener, TcpAddress& from) {
  from.bytes = sizeof from.storage;
  UniqueFd socket(
      ::accept4(listener, reinterpret_cast<sockaddr*>(&from.storage), &from.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open() || from.storage.ss_family == AF_UNIX) {
    from.bytes = 0;
  }
  return socket;
}

Result<std::uint16_t> port_of(int socket) {
  TcpAddress address;
  address.bytes = sizeof address.storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes) != 0) {
    return Status::from_errno("getsockname()", errno);
  }
  return ntohs(address.storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

}  // namespace ronde::store
