#include "transport/tcp/greeting.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/random.h"

namespace ronde::transport {

namespace {

constexpr std::string_view kGreetingMagic = "RONDE-T1";
constexpr std::byte kWelcome{'w'};
constexpr std::size_t kGreetingBytes = kGreetingMagic.size() + sizeof(store::Nonce) + sizeof(std::uint32_t);

}  // namespace

Greeting::Greeting(UniqueFd socket, const TcpMeeting& meeting, Phase phase, int peer)
    : socket_(std::move(socket)), meeting_(&meeting), phase_(phase), peer_(peer) {}

Greeting Greeting::to(UniqueFd socket, const TcpMeeting& meeting, int to) {
  Greeting made(std::move(socket), meeting, Phase::connecting, to);
  made.key_ = made.key_with(to, meeting.rank);
  return made;
}

Greeting Greeting::from_anybody(UniqueFd socket, const TcpMeeting& meeting) {
  return Greeting(std::move(socket), meeting, Phase::greeting, -1);
}

JobKey Greeting::key_with(int listener, int caller) const {
  ByteWriter context;
  context.put_string("ronde tcp");
  context.put_string(meeting_->scope);
  context.put(static_cast<std::int32_t>(listener));
  context.put(static_cast<std::int32_t>(caller));
  return store::derive(meeting_->key, context.bytes());
}

/// With keys for this connection, since both nonces are fresh; who has the higher rank has connected, as a client.
TcpConnection Greeting::take() {
  const bool is_caller = meeting_->rank > peer_;
  const JobKey callers = store::sealing_key(key_, store::Role::client, callers_, listeners_);
  const JobKey listeners = store::sealing_key(key_, store::Role::server, callers_, listeners_);
  return {std::move(socket_), is_caller ? callers : listeners, is_caller ? listeners : callers};
}

short Greeting::events() const { return phase_ == Phase::connecting ? POLLOUT : POLLIN; }

Greeted Greeting::advance() {
  while (true) {
    Greeted so_far = Greeted::not_yet;
    switch (phase_) {
      case Phase::connecting: so_far = greet() ? Greeted::done : Greeted::refused; break;
      case Phase::greeting: so_far = read_greeting(); break;
      case Phase::answering: so_far = read_answer(); break;
      case Phase::proving: so_far = read_proof(); break;
      case Phase::proved: so_far = read_welcome(); break;
      case Phase::done: return Greeted::done;
    }
    if (so_far != Greeted::done) {
      return so_far;
    }
    got_.clear();
  }
}

/// Exactly so many bytes, and none of what follows.
Greeted Greeting::read(std::size_t bytes) {
  while (got_.size() < bytes) {
    std::array<std::byte, 128> piece;
    const std::size_t room = std::min(piece.size(), bytes - got_.size());
    const ssize_t got = ::recv(socket_.get(), piece.data(), room, MSG_DONTWAIT);
    if (got > 0) {
      got_.insert(got_.end(), piece.begin(), piece.begin() + got);
    } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      return Greeted::refused;
    } else if (errno != EINTR) {
      return Greeted::not_yet;
    }
  }
  return Greeted::done;
}

/// A fresh connection has room for a few frames.
bool Greeting::write(std::span<const std::byte> bytes) {
  return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

/// Requires: the socket is writable, so that it is connected or never will be.
bool Greeting::greet() {
  if (!fill_random(callers_)) {
    return false;
  }
  std::array<std::byte, kGreetingBytes> frame;
  std::memcpy(frame.data(), kGreetingMagic.data(), kGreetingMagic.size());
  std::memcpy(frame.data() + kGreetingMagic.size(), callers_.data(), callers_.size());
  const auto rank = static_cast<std::uint32_t>(meeting_->rank);
  std::memcpy(frame.data() + kGreetingMagic.size() + callers_.size(), &rank, sizeof rank);
  phase_ = Phase::answering;
  return write(frame);
}

Greeted Greeting::read_greeting() {
  if (const Greeted so_far = read(kGreetingBytes); so_far != Greeted::done) {
    return so_far;
  }
  std::uint32_t rank = 0;
  std::memcpy(callers_.data(), got_.data() + kGreetingMagic.size(), callers_.size());
  std::memcpy(&rank, got_.data() + kGreetingMagic.size() + callers_.size(), sizeof rank);
  // Who has the higher rank connects.
  if (std::memcmp(got_.data(), kGreetingMagic.data(), kGreetingMagic.size()) != 0 ||
      rank >= static_cast<unsigned>(meeting_->size) || rank <= static_cast<unsigned>(meeting_->rank) ||
      !fill_random(listeners_)) {
    return Greeted::refused;
  }
  peer_ = static_cast<int>(rank);
  key_ = key_with(meeting_->rank, peer_);
  phase_ = Phase::proving;
  return write(store::encode_challenge(listeners_, store::prove(key_, store::Role::server, callers_, listeners_)))
             ? Greeted::done
             : Greeted::refused;
}

Greeted Greeting::read_answer() {
  if (const Greeted so_far = read(store::kChallengeBytes); so_far != Greeted::done) {
    return so_far;
  }
  store::Mac proof;
  if (!store::decode_challenge(got_, listeners_, proof) ||
      !store::verify(key_, store::Role::server, callers_, listeners_, proof)) {
    return Greeted::refused;
  }
  phase_ = Phase::proved;
  return write(store::prove(key_, store::Role::client, callers_, listeners_)) ? Greeted::done : Greeted::refused;
}

Greeted Greeting::read_proof() {
  if (const Greeted so_far = read(store::kProofBytes); so_far != Greeted::done) {
    return so_far;
  }
  store::Mac proof;
  if (!store::decode_proof(got_, proof) || !store::verify(key_, store::Role::client, callers_, listeners_, proof)) {
    return Greeted::refused;
  }
  phase_ = Phase::done;
  return write(std::span(&kWelcome, 1)) ? Greeted::done : Greeted::refused;
}

/// Who listens may have dropped the connection meanwhile: then this rank connects once more.
Greeted Greeting::read_welcome() {
  if (const Greeted so_far = read(1); so_far != Greeted::done) {
    return so_far;
  }
  phase_ = Phase::done;
  return got_.front() == kWelcome ? Greeted::done : Greeted::refused;
}

}  // namespace ronde::transport
