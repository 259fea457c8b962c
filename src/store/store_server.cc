#include "store/store_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <map>

#include "base/boot_id.h"
#include "base/forked_children.h"
#include "base/random.h"
#include "base/thread.h"
#include "store/exchange_frames.h"
#include "store/handshake.h"
#include "store/meetings.h"
#include "store/packet_socket.h"
#include "store/strangers.h"
#include "store/unix_address.h"

namespace ronde::store {

namespace {

constexpr int kBacklog = 512;
constexpr int kAcceptsPerRound = 32;
constexpr ClientId kStopId = 1;
constexpr ClientId kListenerId = 2;
constexpr ClientId kBesideId = 3;
/// How long to leave alone what failed because some table of the kernel was full.
constexpr Nanoseconds kCrowdedPause = kMillisecond;
constexpr Nanoseconds kFullPause = 50 * kMillisecond;

/// A socket at which the server listens.
struct Door {
  Door(ClientId door_id, UniqueFd listener)
      : id(door_id), socket(std::move(listener)), kept_from_children(socket.get()) {}
  const ClientId id;
  const UniqueFd socket;
  const KeptFromForkedChildren kept_from_children;
  Nanoseconds accept_at = kNever;  ///< it rests until then
};

struct Connection {
  /// greeting -> proving -> idle -> (waiting -> answering -> idle)*; anything out of turn ends the connection.
  enum class Phase { greeting, proving, idle, waiting, answering } phase = Phase::greeting;
  PacketSocket socket;
  TcpAddress from;
  Nonce client_nonce{};
  Nonce server_nonce{};
  Nanoseconds deadline = kNever;           ///< of the handshake, or of taking the answer
  std::shared_ptr<const Complete> answer;  ///< while answering
  std::size_t next = 0;                    ///< the first value of it that is not sent yet
  Nanoseconds retry_at = kNever;           ///< sending is put off until then

  bool is_stranger() const { return phase == Phase::greeting || phase == Phase::proving; }
};

bool has_hung_up(int socket) {
  std::byte byte{};
  const ssize_t got = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/// What the server's thread runs; nothing of it is touched by another thread.
class Server {
 public:
  Server(UniqueFd listener, UniqueFd beside, int stop, UniqueFd epoll, const JobKey& key,
         const StoreServerOptions& options)
      : stop_(stop), epoll_(std::move(epoll)), key_(key), options_(options) {
    doors_.emplace_back(kListenerId, std::move(listener));
    if (beside.is_open()) {
      doors_.emplace_back(kBesideId, std::move(beside));
    }
  }

  Status prepare() {
    RONDE_RETURN_IF_ERROR(watch(EPOLL_CTL_ADD, stop_, EPOLLIN, kStopId));
    for (const Door& door : doors_) {
      RONDE_RETURN_IF_ERROR(watch(EPOLL_CTL_ADD, door.socket.get(), EPOLLIN, door.id));
    }
    return {};
  }

  void serve() {
    std::array<epoll_event, 64> events;
    while (true) {
      const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), patience());
      if (count < 0 && errno != EINTR) {
        return;
      }
      for (int i = 0; i < count; ++i) {
        const ClientId id = events[static_cast<std::size_t>(i)].data.u64;
        if (id == kStopId) {
          return;
        }
        if (id <= kBesideId) {
          accept_some(id == kListenerId ? doors_.front() : doors_.back());
        } else {
          handle(id, events[static_cast<std::size_t>(i)].events);
        }
      }
      keep_time();
    }
  }

 private:
  Status watch(int operation, int fd, std::uint32_t events, ClientId id) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0 ? Status{} : Status::from_errno("epoll_ctl", errno);
  }

  /// How long to wait for events before something is due.
  int patience() const {
    Nanoseconds next = meetings_.next_deadline();
    for (const Door& door : doors_) {
      next = std::min(next, door.accept_at);
    }
    for (const auto& [id, connection] : connections_) {
      next = std::min({next, connection.deadline, connection.retry_at});
    }
    return poll_timeout(next, clock_.now());
  }

  void keep_time() {
    const Nanoseconds now = clock_.now();
    for (Door& door : doors_) {
      if (door.accept_at <= now) {
        door.accept_at = kNever;
        (void)watch(EPOLL_CTL_MOD, door.socket.get(), EPOLLIN, door.id);
      }
    }
    for (const Expired& each : meetings_.expire(now)) {
      refuse(each.client, each.status);
    }
    for (auto it = connections_.begin(); it != connections_.end();) {
      const auto [id, connection] = std::tie(it->first, it->second);
      ++it;  // closing erases
      if (connection.deadline <= now) {
        close(id);
      } else if (connection.retry_at <= now) {
        send_answer(id, connection);
      }
    }
  }

  /// A few a round: who floods the server must not keep it from those who have come before.
  void accept_some(Door& door) {
    for (int accepted = 0; accepted < kAcceptsPerRound; ++accepted) {
      TcpAddress from;
      UniqueFd socket = accept_from(door.socket.get(), from);
      if (!socket.is_open()) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
          // The one who waits stays in the backlog and would wake us again at once.
          door.accept_at = clock_.now() + kFullPause;
          (void)watch(EPOLL_CTL_MOD, door.socket.get(), 0, door.id);
          return;
        }
        if (errno == EINTR || errno == ECONNABORTED) {
          continue;
        }
        return;
      }
      PacketSocket client(std::move(socket));
      if ((client.is_of_this_host() && !is_same_user(client.get())) ||
          connections_.size() >= static_cast<std::size_t>(options_.max_connections)) {
        continue;
      }
      make_room_for_stranger();
      const ClientId id = next_id_++;
      if (!watch(EPOLL_CTL_ADD, client.get(), EPOLLIN, id)) {
        continue;
      }
      Connection& connection = connections_[id];
      connection.socket = std::move(client);
      connection.from = from;
      connection.deadline = later(clock_.now(), options_.handshake_limit);
    }
  }

  /// A rank proves itself within microseconds. So of too many strangers the oldest go, and nobody who floods the
  /// server with silent connections keeps the ranks out.
  void make_room_for_stranger() {
    int strangers = 0;
    ClientId oldest = 0;
    for (const auto& [id, connection] : connections_) {
      if (connection.is_stranger()) {
        oldest = oldest == 0 ? id : oldest;
        ++strangers;
      }
    }
    if (strangers >= options_.max_strangers) {
      close(oldest);
    }
  }

  void handle(ClientId id, std::uint32_t events) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) {
      return;  // closed earlier in this round
    }
    Connection& connection = found->second;
    if (connection.phase == Connection::Phase::answering) {
      if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
        close(id);
      } else {
        send_answer(id, connection);
      }
      return;
    }
    const bool known = !connection.is_stranger();
    Packet packet;
    switch (connection.socket.receive(known ? kMaxFrameBytes : kHelloBytes,
                                      connection.phase == Connection::Phase::idle ? kMaxDescriptors : 0, packet)) {
      case PacketResult::again: return;
      case PacketResult::done:
        if (!take(id, connection, packet)) {
          close(id);
        }
        return;
      default: close(id);
    }
  }

  /// One frame in turn; false if the connection must end.
  bool take(ClientId id, Connection& connection, Packet& packet) {
    switch (connection.phase) {
      case Connection::Phase::greeting: {
        if (!decode_hello(packet.bytes, connection.client_nonce) || !fill_random(connection.server_nonce)) {
          return false;
        }
        const Mac proof = prove(key_, Role::server, connection.client_nonce, connection.server_nonce);
        connection.phase = Connection::Phase::proving;
        return connection.socket.send(encode_challenge(connection.server_nonce, proof)) == PacketResult::done;
      }
      case Connection::Phase::proving: {
        Mac proof;
        if (!decode_proof(packet.bytes, proof) ||
            !verify(key_, Role::client, connection.client_nonce, connection.server_nonce, proof)) {
          return false;
        }
        connection.phase = Connection::Phase::idle;
        connection.deadline = kNever;
        connection.socket.seal(sealing_key(key_, Role::server, connection.client_nonce, connection.server_nonce),
                               sealing_key(key_, Role::client, connection.client_nonce, connection.server_nonce));
        return true;
      }
      case Connection::Phase::idle: return take_request(id, connection, packet);
      default: return false;
    }
  }

  bool take_request(ClientId id, Connection& connection, Packet& packet) {
    if (is_clock_question(packet.bytes)) {
      return connection.socket.send(encode_clock_reading({clock_.now(), boot_})) == PacketResult::done;
    }
    Result<Request> request = decode_request(packet.bytes);
    if (!request) {
      return false;
    }
    // A process that took the place of a dead one may be heard before its predecessor's end is.
    const ClientId holder = meetings_.holder(request->scope, request->rank);
    if (holder != 0 && has_hung_up(connections_[holder].socket.get())) {
      close(holder);
    }
    Value value{std::move(request->bytes), std::move(packet.descriptors)};
    Result<std::shared_ptr<const Complete>> joined = meetings_.join(id, request->scope, request->rank, request->size,
                                                                    std::move(value), request->limit, clock_.now());
    if (!joined) {
      refuse(id, joined.status());
      return true;
    }
    connection.phase = Connection::Phase::waiting;
    if (const std::shared_ptr<const Complete>& complete = joined.value()) {
      for (const ClientId member : complete->members) {
        Connection& each = connections_[member];
        each.phase = Connection::Phase::answering;
        each.answer = complete;
        each.next = 0;
        each.deadline = later(clock_.now(), options_.answer_limit);
        send_answer(member, each);
      }
    }
    return true;
  }

  /// Sends what the socket takes; the rest when there is room.
  void send_answer(ClientId id, Connection& connection) {
    connection.retry_at = kNever;
    while (connection.next < connection.answer->values.size()) {
      const Value& value = connection.answer->values[connection.next];
      const std::vector<std::byte> frame = encode_value(static_cast<int>(connection.next), value.bytes);
      switch (connection.socket.send(frame, value.descriptors)) {
        case PacketResult::done: ++connection.next; break;
        case PacketResult::again: (void)watch(EPOLL_CTL_MOD, connection.socket.get(), EPOLLOUT, id); return;
        case PacketResult::crowded:
          connection.retry_at = clock_.now() + kCrowdedPause;
          (void)watch(EPOLL_CTL_MOD, connection.socket.get(), 0, id);
          return;
        default: close(id); return;
      }
    }
    if (connection.socket.flush() == PacketResult::again) {
      (void)watch(EPOLL_CTL_MOD, connection.socket.get(), EPOLLOUT, id);
      return;
    }
    connection.answer.reset();
    connection.deadline = kNever;
    connection.phase = Connection::Phase::idle;
    (void)watch(EPOLL_CTL_MOD, connection.socket.get(), EPOLLIN, id);
  }

  void refuse(ClientId id, const Status& status) {
    Connection& connection = connections_[id];
    connection.phase = Connection::Phase::idle;
    if (connection.socket.send(encode_refusal(status)) != PacketResult::done) {
      // Reported as an end of the connection: the event comes in the next round. Nothing is erased here, since
      // callers hold references.
      (void)::shutdown(connection.socket.get(), SHUT_RDWR);
    }
  }

  void close(ClientId id) {
    meetings_.leave(id);
    const auto found = connections_.find(id);
    // A Unix socket is reached by this user alone: what fails there is a rank that died.
    if (found == connections_.end()) {
      return;
    }
    if (found->second.is_stranger() && !found->second.socket.is_of_this_host()) {
      count_stranger(found->second.from, "the job's store", 0);  // rank 0 serves it on TCP
    }
    connections_.erase(found);
  }

  std::list<Door> doors_;
  int stop_;
  UniqueFd epoll_;
  JobKey key_;
  StoreServerOptions options_;
  RealClock clock_;
  const std::string boot_ = boot_id();
  Meetings meetings_;
  std::map<ClientId, Connection> connections_;  ///< by age
  ClientId next_id_ = kBesideId + 1;
};

}  // namespace

Result<UniqueFd> listen_unix(const std::string& path) {
  RONDE_ASSIGN_OR_RETURN(const sockaddr_un address, unix_address(path));
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) {
    return Status::from_errno("socket(AF_UNIX)", errno);
  }
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Status::from_errno("bind('" + path + "')", errno);
  }
  if (::listen(socket.get(), kBacklog) != 0) {
    return Status::from_errno("listen('" + path + "')", errno);
  }
  return socket;
}

UniqueFd listen_beside(const std::string& path) {
  Result<UniqueFd> socket = listen_unix(abstract_name(path));
  return socket ? std::move(*socket) : UniqueFd();
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(UniqueFd listener, const JobKey& key,
                                                        const StoreServerOptions& options, UniqueFd beside) {
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!stop.is_open() || !epoll.is_open()) {
    return Status::from_errno("eventfd or epoll_create1", errno);
  }
  auto server =
      std::make_unique<Server>(std::move(listener), std::move(beside), stop.get(), std::move(epoll), key, options);
  RONDE_RETURN_IF_ERROR(server->prepare());
  RONDE_ASSIGN_OR_RETURN(std::thread thread,
                         start_thread("starting the store's thread", [server = std::move(server)]() mutable {
                           try {
                             server->serve();
                           } catch (...) {
                             // Out of memory: the connections end here, and each client gets an error.
                           }
                           server.reset();
                         }));
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(stop), std::move(thread)));
}

StoreServer::~StoreServer() {
  const std::uint64_t one = 1;
  while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

}  // namespace ronde::store
