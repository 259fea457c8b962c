#include "store/store_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/boot_id.h"
#include "base/clock_offset.h"
#include "base/random.h"
#include "store/exchange_frames.h"
#include "store/handshake.h"
#include "store/packet_socket.h"
#include "store/tcp_address.h"
#include "store/unix_address.h"

namespace ronde::store {

namespace {

/// The server ends a request in time and knows who is missing, so it should speak first; a server that is stopped or
/// starved of its processor gets this much longer.
constexpr Nanoseconds kServerDelay = 5 * kSecond;
/// Of connecting over TCP: a server that is about to start refuses at once.
constexpr Nanoseconds kOneAttempt = 5 * kSecond;
constexpr Nanoseconds kBetweenAttempts = 50 * kMillisecond;
/// Of clocks: of so many the fastest counts, and fewer are made where they take that long.
constexpr int kEchoes = 8;
constexpr Nanoseconds kEnoughEchoes = 20 * kMillisecond;

/// Waits for the events (an error or a hang-up counts as one); false once the deadline has passed.
bool wait_for(int socket, short events, Nanoseconds deadline) {
  const RealClock clock;
  pollfd entry{socket, events, 0};
  while (true) {
    const int count = ::poll(&entry, 1, poll_timeout(deadline, clock.now()));
    if (count > 0 || (count < 0 && errno != EINTR)) {
      return true;
    }
    if (clock.now() >= deadline) {
      return false;
    }
  }
}

Status is_silent(const std::string& path) {
  return Status::error(Code::timed_out,
                       "Timed out: the store at '" + path + "' does not answer; is the launcher stopped?");
}

/// A packet, or why there is none. `timed_out` and `closed` are the sentences for their cases.
Result<Packet> receive_until(PacketSocket& socket, std::size_t limit, std::size_t max_descriptors, Nanoseconds deadline,
                             const Status& timed_out, const Status& closed) {
  Packet packet;
  while (true) {
    switch (socket.receive(limit, max_descriptors, packet)) {
      case PacketResult::done: return packet;
      case PacketResult::bad:
        return Status::error(Code::system_error,
                             "descriptors from the store were lost; has this process too many open files (ulimit -n)?");
      case PacketResult::again:
        if (!wait_for(socket.get(), POLLIN, deadline)) {
          return timed_out;
        }
        break;
      default: return closed;
    }
  }
}

class StoreClient final : public Store {
 public:
  StoreClient(std::string path, PacketSocket socket) : path_(std::move(path)), socket_(std::move(socket)) {}

  Result<std::vector<Value>> exchange(const std::string& scope, int rank, int size, Value value,
                                      Nanoseconds limit) override {
    if (!socket_.is_open()) {
      return lost();
    }
    const Request request{scope, rank, size, limit, std::move(value.bytes)};
    RONDE_RETURN_IF_ERROR(check_request(request));
    if (!value.descriptors.empty() && !socket_.is_of_this_host()) {
      return Status::error(Code::invalid_argument,
                           "ranks that meet in a store over TCP cannot share memory: set RONDE_TRANSPORT=tcp");
    }
    if (value.descriptors.size() > kMaxDescriptors) {
      return Status::error(Code::invalid_argument, "a value in a store has at most " + std::to_string(kMaxDescriptors) +
                                                       " descriptors; this one has " +
                                                       std::to_string(value.descriptors.size()));
    }
    const Nanoseconds deadline = later(later(RealClock().now(), limit), kServerDelay);
    bool in_step = true;
    Result<std::vector<Value>> answer = ask(request, value.descriptors, deadline, in_step);
    if (!in_step) {
      socket_.reset();  // the rest of this answer must not be taken for the next one
    }
    return answer;
  }

  Result<JobClock> compare_clocks(Nanoseconds limit) override {
    if (!socket_.is_open()) {
      return lost();
    }
    const std::string own = boot_id();
    const RealClock clock;
    const Nanoseconds begun = clock.now();
    ClockOffset offset;
    std::string boot;
    for (int echo = 0; echo < kEchoes && (echo == 0 || clock.now() - begun < kEnoughEchoes); ++echo) {
      const Nanoseconds sent = clock.now();
      Result<ClockReading> reading = read_clock(later(begun, limit));
      const Nanoseconds got = clock.now();
      if (!reading) {
        socket_.reset();
        return reading.status();
      }
      boot = reading->boot;
      if (!boot.empty() && boot == own) {
        return JobClock{boot, 0, 0};
      }
      offset.note_echo(sent, reading->now, got);
    }
    return JobClock{boot, -offset.here(0), offset.round() / 2};
  }

 private:
  /// `in_step` becomes false when the server may still send something that belongs to this request.
  Result<std::vector<Value>> ask(const Request& request, const std::vector<UniqueFd>& descriptors, Nanoseconds deadline,
                                 bool& in_step) {
    in_step = false;
    RONDE_RETURN_IF_ERROR(send(encode_request(request), descriptors, deadline));
    std::vector<Value> values;
    for (int rank = 0; rank < request.size; ++rank) {
      RONDE_ASSIGN_OR_RETURN(
          Packet packet, receive_until(socket_, kMaxFrameBytes, kMaxDescriptors, deadline, is_silent(path_), lost()));
      RONDE_ASSIGN_OR_RETURN(Answer answer, decode_answer(packet.bytes));
      if (!answer.refusal && rank == 0) {
        in_step = true;
        return answer.refusal;
      }
      if (answer.rank != rank) {
        return Status::error(Code::internal, "the store's answers came out of order");
      }
      values.push_back({std::move(answer.bytes), std::move(packet.descriptors)});
    }
    in_step = true;
    return values;
  }

  Status send(const std::vector<std::byte>& frame, const std::vector<UniqueFd>& descriptors, Nanoseconds deadline) {
    while (true) {
      const PacketResult sent = socket_.send(frame, descriptors);
      if (sent == PacketResult::done) {
        break;
      }
      if (sent == PacketResult::closed) {
        return lost();
      }
      // `crowded` has no event to wait for; polling for what never comes is a pause of a millisecond.
      const bool crowded = sent == PacketResult::crowded;
      const Nanoseconds until = crowded ? RealClock().now() + kMillisecond : deadline;
      if (!wait_for(socket_.get(), crowded ? 0 : POLLOUT, until) && RealClock().now() >= deadline) {
        return is_silent(path_);
      }
    }
    while (socket_.flush() == PacketResult::again) {
      if (!wait_for(socket_.get(), POLLOUT, deadline)) {
        return is_silent(path_);
      }
    }
    return {};
  }

  Result<ClockReading> read_clock(Nanoseconds deadline) {
    RONDE_RETURN_IF_ERROR(send(encode_clock_question(), {}, deadline));
    RONDE_ASSIGN_OR_RETURN(const Packet packet,
                           receive_until(socket_, kMaxFrameBytes, 0, deadline, is_silent(path_), lost()));
    return decode_clock_reading(packet.bytes);
  }

  Status lost() const {
    return Status::error(Code::system_error,
                         "the store at '" + path_ + "' has closed the connection; has the launcher ended?");
  }

  std::string path_;
  PacketSocket socket_;
};

/// `failure` becomes why nothing is to be reached under `name`; `path` is for sentences.
Result<UniqueFd> connect_by(const std::string& name, const std::string& path, Nanoseconds deadline, int& failure) {
  RONDE_ASSIGN_OR_RETURN(const sockaddr_un address, unix_address(name));
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    return Status::from_errno("socket(AF_UNIX)", errno);
  }
  const RealClock clock;
  while (true) {
    // connect() of a Unix socket waits only while the backlog is full, and honours the send time-out meanwhile.
    const Nanoseconds span = std::clamp<Nanoseconds>(deadline - clock.now(), kMillisecond, 3600 * kSecond);
    const timeval limit{static_cast<time_t>(span / kSecond), static_cast<suseconds_t>(span % kSecond / kMicrosecond)};
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return socket;
    }
    failure = errno;
    if (failure != EINTR && failure != EAGAIN) {
      return Status::from_errno("connecting to the store at '" + path + "'", failure);
    }
    if (clock.now() >= deadline) {
      return Status::error(Code::timed_out, "Timed out: the store at '" + path + "' accepts no connection in time");
    }
  }
}

/// At the path, or, where a container hides its folder, under the abstract name that goes with it.
Result<UniqueFd> connect_to_path(const std::string& path, Nanoseconds deadline) {
  int failure = 0;
  Result<UniqueFd> there = connect_by(path, path, deadline, failure);
  if (there || failure != ENOENT || is_abstract(path)) {
    return there;
  }
  if (Result<UniqueFd> beside = connect_by(abstract_name(path), path, deadline, failure); beside) {
    return beside;
  }
  return Status::error(there.status().code(),
                       there.status().message() +
                           ". If this process runs in a container, that needs the folder, or the network namespace, of "
                           "the process that serves the store");
}

/// Waits for a connection under way; 0, or why there is none.
int finish_connecting(int socket, Nanoseconds deadline) {
  if (!wait_for(socket, POLLOUT, deadline)) {
    return ETIMEDOUT;
  }
  int failure = 0;
  socklen_t bytes = sizeof failure;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &failure, &bytes) == 0 ? failure : errno;
}

/// A port that nobody listens at may be the one that the kernel has given to the very socket that connects there.
bool is_connected_to_itself(int socket) {
  TcpAddress own;
  TcpAddress peer;
  own.bytes = peer.bytes = sizeof own.storage;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.bytes) == 0 &&
         ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer.storage), &peer.bytes) == 0 &&
         own.bytes == peer.bytes && std::memcmp(&own.storage, &peer.storage, own.bytes) == 0;
}

Result<UniqueFd> connect_to_host(const std::string& text, Nanoseconds deadline) {
  RONDE_ASSIGN_OR_RETURN(const HostAndPort where, parse_host_and_port(text));
  const RealClock clock;
  std::string why = "no answer";
  while (true) {
    RONDE_ASSIGN_OR_RETURN(const std::vector<TcpAddress> addresses, resolve(where));
    for (const TcpAddress& address : addresses) {
      UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket.is_open()) {
        return Status::from_errno("socket()", errno);
      }
      int failure = ::connect(socket.get(), address.get(), address.bytes) == 0 ? 0 : errno;
      if (failure == EINPROGRESS) {
        failure = finish_connecting(socket.get(), std::min(deadline, later(clock.now(), kOneAttempt)));
      }
      if (failure == 0 && !is_connected_to_itself(socket.get())) {
        return socket;
      }
      why = std::strerror(failure);
    }
    if (clock.now() >= deadline) {
      return Status::error(Code::timed_out, "Timed out: nobody serves the job's store at tcp:" + text + " (" + why +
                                                "). Rank 0 does, once it has called init: is it started, and can this "
                                                "host reach it there?");
    }
    ::poll(nullptr, 0, poll_timeout(std::min(deadline, later(clock.now(), kBetweenAttempts)), clock.now()));
  }
}

Status authenticate(const std::string& path, PacketSocket& socket, const JobKey& key, Nanoseconds deadline) {
  if (socket.is_of_this_host() && !is_same_user(socket.get())) {
    return Status::error(Code::auth_failed, "the store at '" + path + "' belongs to another user");
  }
  Nonce client_nonce;
  RONDE_RETURN_IF_ERROR(fill_random(client_nonce));
  const Status refused =
      socket.is_of_this_host()
          ? Status::error(Code::auth_failed, "the store at '" + path +
                                                 "' refused this process: it must run as the same user as the launcher")
          : Status::error(Code::system_error, "the store at '" + path +
                                                  "' has closed the connection before either side had proved its key; "
                                                  "is it flooded, or another program's port?");
  if (socket.send(encode_hello(client_nonce)) != PacketResult::done) {
    return refused;
  }
  RONDE_ASSIGN_OR_RETURN(const Packet packet,
                         receive_until(socket, kChallengeBytes, 0, deadline, is_silent(path), refused));
  Nonce server_nonce;
  Mac proof;
  if (!decode_challenge(packet.bytes, server_nonce, proof) ||
      !verify(key, Role::server, client_nonce, server_nonce, proof)) {
    return Status::error(
        Code::auth_failed,
        "the store at '" + path + "' has another job's key; RONDE_STORE and RONDE_KEY must be of one job");
  }
  if (socket.send(prove(key, Role::client, client_nonce, server_nonce)) != PacketResult::done) {
    return refused;
  }
  socket.seal(sealing_key(key, Role::client, client_nonce, server_nonce),
              sealing_key(key, Role::server, client_nonce, server_nonce));
  return {};
}

}  // namespace

Result<std::unique_ptr<Store>> connect_store(const std::string& address, const JobKey& key, Nanoseconds limit) {
  const RealClock clock;
  const Nanoseconds deadline = later(clock.now(), limit);
  constexpr std::string_view kUnix = "unix:";
  constexpr std::string_view kTcp = "tcp:";
  while (true) {
    UniqueFd connected;
    if (address.starts_with(kUnix)) {
      RONDE_ASSIGN_OR_RETURN(connected, connect_to_path(address.substr(kUnix.size()), deadline));
    } else if (address.starts_with(kTcp)) {
      RONDE_ASSIGN_OR_RETURN(connected, connect_to_host(address.substr(kTcp.size()), deadline));
    } else {
      return Status::error(Code::invalid_argument, "RONDE_STORE is '" + address +
                                                       "'; expected unix: and the path of a socket, or tcp:host:port");
    }
    PacketSocket socket(std::move(connected));
    const Status proved = authenticate(address, socket, key, deadline);
    if (proved) {
      return std::unique_ptr<Store>(std::make_unique<StoreClient>(address, std::move(socket)));
    }
    // Of too many strangers a server drops the oldest, a rank that was slow perhaps: it may try again.
    if (socket.is_of_this_host() || proved.code() != Code::system_error || clock.now() >= deadline) {
      return proved;
    }
    ::poll(nullptr, 0, poll_timeout(std::min(deadline, later(clock.now(), kBetweenAttempts)), clock.now()));
  }
}

}  // namespace ronde::store
