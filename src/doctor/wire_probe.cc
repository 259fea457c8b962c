#include "doctor/wire_probe.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/random.h"
#include "store/handshake.h"
#include "store/tcp_address.h"

namespace ronde::doctor {

namespace {

constexpr Nanoseconds kHandshakeLimit = 5 * kSecond;

Status wait_for(int socket, short events, Nanoseconds deadline) {
  const RealClock clock;
  pollfd entry{socket, events, 0};
  while (clock.now() < deadline) {
    if (::poll(&entry, 1, poll_timeout(deadline, clock.now())) > 0) {
      return {};
    }
  }
  return Status::error(Code::timed_out, "timed out");
}

}  // namespace

WireProbe::WireProbe(UniqueFd socket) : socket_(std::move(socket)) {
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Result<WireProbe> WireProbe::connect(const std::string& address_and_port, const JobKey& key, Nanoseconds limit) {
  const Nanoseconds deadline = later(RealClock().now(), limit);
  RONDE_ASSIGN_OR_RETURN(const store::HostAndPort where, store::parse_host_and_port(address_and_port));
  RONDE_ASSIGN_OR_RETURN(const std::vector<store::TcpAddress> addresses, store::resolve(where, store::HostIs::numbers));
  UniqueFd socket(::socket(addresses[0].storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) {
    return Status::from_errno("socket", errno);
  }
  if (::connect(socket.get(), addresses[0].get(), addresses[0].bytes) != 0) {
    if (errno != EINPROGRESS) {
      return Status::from_errno("connect", errno);
    }
    RONDE_RETURN_IF_ERROR(wait_for(socket.get(), POLLOUT, deadline).with_context("connect"));
    int failure = 0;
    socklen_t size = sizeof failure;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure != 0) {
      return Status::from_errno("connect", failure);
    }
  }
  WireProbe probe(std::move(socket));
  RONDE_RETURN_IF_ERROR(probe.prove_as_client(key).with_context("greeting"));
  return probe;
}

Result<WireProbe> WireProbe::accept(int listener, const JobKey& key, Nanoseconds limit) {
  const Nanoseconds deadline = later(RealClock().now(), limit);
  while (true) {
    RONDE_RETURN_IF_ERROR(wait_for(listener, POLLIN, deadline));
    UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      continue;
    }
    WireProbe probe(std::move(socket));
    if (probe.prove_as_server(key)) {
      return probe;
    }
  }
}

Status WireProbe::prove_as_client(const JobKey& key) {
  store::Nonce mine{};
  store::Nonce theirs{};
  store::Mac proof{};
  if (!fill_random(mine)) {
    return Status::error(Code::system_error, "no random numbers");
  }
  const auto hello = store::encode_hello(mine);
  RONDE_RETURN_IF_ERROR(send(hello.data(), hello.size(), kHandshakeLimit));
  std::array<std::byte, store::kChallengeBytes> challenge{};
  RONDE_RETURN_IF_ERROR(receive(challenge.data(), challenge.size(), kHandshakeLimit));
  if (!store::decode_challenge(challenge, theirs, proof) ||
      !store::verify(key, store::Role::server, mine, theirs, proof)) {
    return Status::error(Code::auth_failed, "something else than `ronde doctor` answers there");
  }
  const store::Mac own = store::prove(key, store::Role::client, mine, theirs);
  return send(own.data(), own.size(), kHandshakeLimit);
}

Status WireProbe::prove_as_server(const JobKey& key) {
  std::array<std::byte, store::kHelloBytes> hello{};
  RONDE_RETURN_IF_ERROR(receive(hello.data(), hello.size(), kHandshakeLimit));
  store::Nonce theirs{};
  store::Nonce mine{};
  if (!store::decode_hello(hello, theirs) || !fill_random(mine)) {
    return Status::error(Code::auth_failed, "a stranger");
  }
  const auto challenge = store::encode_challenge(mine, store::prove(key, store::Role::server, theirs, mine));
  RONDE_RETURN_IF_ERROR(send(challenge.data(), challenge.size(), kHandshakeLimit));
  store::Mac proof{};
  RONDE_RETURN_IF_ERROR(receive(proof.data(), proof.size(), kHandshakeLimit));
  return store::verify(key, store::Role::client, theirs, mine, proof) ? Status{}
                                                                      : Status::error(Code::auth_failed, "a stranger");
}

Status WireProbe::send(const void* bytes, std::size_t count, Nanoseconds idle_limit) {
  const char* place = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t sent = ::send(socket_.get(), place, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      place += sent;
      count -= static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN || errno == EINTR) {
      RONDE_RETURN_IF_ERROR(wait_for(socket_.get(), POLLOUT, later(RealClock().now(), idle_limit)));
    } else {
      return Status::from_errno("send", errno);
    }
  }
  return {};
}

Status WireProbe::receive(void* bytes, std::size_t count, Nanoseconds idle_limit) {
  char* place = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t got = ::recv(socket_.get(), place, count, MSG_DONTWAIT);
    if (got > 0) {
      place += got;
      count -= static_cast<std::size_t>(got);
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      RONDE_RETURN_IF_ERROR(wait_for(socket_.get(), POLLIN, later(RealClock().now(), idle_limit)));
    } else {
      return got == 0 ? Status::error(Code::peer_lost, "the other side has closed it")
                      : Status::from_errno("recv", errno);
    }
  }
  return {};
}

}  // namespace ronde::doctor
