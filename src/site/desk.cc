// A desk: rank 0 listens, each of the others asks once. Both say a u16 of a length and then so many bytes, which the
// seal makes and understands.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <thread>

#include "base/forked_children.h"
#include "base/log.h"
#include "base/stable_hash.h"
#include "base/thread.h"
#include "site/courier.h"
#include "store/port_range.h"
#include "store/strangers.h"
#include "store/tcp_address.h"

namespace ronde::site {

namespace {

using Length = std::uint16_t;
constexpr std::size_t kMostBytes = 4096;
/// What a stranger may cost: these bytes and this time, of so many at a time.
constexpr Nanoseconds kPatience = 5 * kSecond;
constexpr std::size_t kMostAtOnce = 64;
constexpr Nanoseconds kBetweenRounds = 50 * kMillisecond;
constexpr Nanoseconds kOneConnect = 2 * kSecond;

Bytes framed(const Bytes& bytes) {
  const auto length = static_cast<Length>(bytes.size());
  return joined(std::as_bytes(std::span(&length, 1)), bytes);
}

/// What of a frame is still to come: 0 if it is whole; nothing if it is too long.
std::optional<std::size_t> missing_of(const Bytes& got) {
  if (got.size() < sizeof(Length)) {
    return sizeof(Length) - got.size();
  }
  Length length = 0;
  std::memcpy(&length, got.data(), sizeof length);
  if (length > kMostBytes) {
    return std::nullopt;
  }
  return sizeof length + length - got.size();
}

/// False once the other side has closed, or nothing more can come of it.
bool receive_some(int socket, Bytes& got) {
  while (true) {
    const std::optional<std::size_t> missing = missing_of(got);
    if (!missing || *missing == 0) {
      return missing.has_value();
    }
    std::array<std::byte, 1024> piece;
    const ssize_t count = ::recv(socket, piece.data(), std::min(piece.size(), *missing), MSG_DONTWAIT);
    if (count <= 0) {
      return count < 0 && (errno == EAGAIN || errno == EINTR);
    }
    got.insert(got.end(), piece.begin(), piece.begin() + count);
  }
}

/// Rank 0's: from its making to its end, on a thread of its own.
class Desk {
 public:
  Desk(UniqueFd listener, Seal& seal, std::string text)
      : listener_(std::move(listener)),
        kept_from_children_(listener_.get()),
        seal_(seal),
        text_(std::move(text)),
        stop_(::eventfd(0, EFD_CLOEXEC)) {}

  Status start() {
    if (!stop_.is_open()) {
      return Status::from_errno("eventfd()", errno);
    }
    RONDE_ASSIGN_OR_RETURN(thread_, start_thread("starting a thread", [this] { serve(); }));
    return {};
  }

  ~Desk() {
    if (thread_.joinable()) {
      const std::uint64_t one = 1;
      static_cast<void>(::write(stop_.get(), &one, sizeof one));
      thread_.join();
    }
  }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

 private:
  struct Visitor {
    UniqueFd socket;
    Bytes got;
    Nanoseconds deadline;
    store::TcpAddress from;
    bool is_answered = false;
  };

  void serve() {
    while (true) {
      std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      Nanoseconds until = kNever;
      for (const Visitor& each : visitors_) {
        fds.push_back({each.socket.get(), POLLIN, 0});
        until = std::min(until, each.deadline);
      }
      ::poll(fds.data(), fds.size(), poll_timeout(until, clock_.now()));
      if (fds[0].revents != 0) {
        return;
      }
      auto event = fds.begin() + 2;
      for (auto each = visitors_.begin(); each != visitors_.end(); ++event) {
        const bool stays = (event->revents == 0 || hear(*each)) && clock_.now() < each->deadline;
        each = stays ? std::next(each) : drop(each);
      }
      if (fds[1].revents != 0) {
        accept_one();
      }
    }
  }

  std::list<Visitor>::iterator drop(std::list<Visitor>::iterator which) {
    if (!which->is_answered) {
      store::count_stranger(which->from, "the port at which ranks ask for the job's key", 0);
    }
    return visitors_.erase(which);
  }

  void accept_one() {
    store::TcpAddress from;
    UniqueFd socket = store::accept_from(listener_.get(), from);
    if (!socket.is_open()) {
      if (errno == EMFILE || errno == ENFILE) {
        ::poll(nullptr, 0, 50);  // until some are closed
      }
      return;
    }
    if (visitors_.size() >= kMostAtOnce) {
      drop(visitors_.begin());  // a rank that was slow asks again
    }
    visitors_.push_back({std::move(socket), {}, clock_.now() + kPatience, from});
  }

  /// False if it is done with.
  bool hear(Visitor& visitor) {
    if (!receive_some(visitor.socket.get(), visitor.got)) {
      return false;
    }
    if (missing_of(visitor.got) != std::size_t{0}) {
      return true;
    }
    const Result<Bytes> answer = seal_.answer(std::span(visitor.got).subspan(sizeof(Length)), text_);
    if (!answer) {
      log(LogLevel::debug, 0, "somebody asks for the job's key and does not get it: " + answer.status().message());
    }
    // An empty answer says that there is none. It is shorter than what the kernel keeps for a connection.
    visitor.is_answered = bool(answer);
    const Bytes frame = framed(answer ? answer.value() : Bytes());
    static_cast<void>(::send(visitor.socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    return false;
  }

  const RealClock clock_;
  UniqueFd listener_;
  const KeptFromForkedChildren kept_from_children_;
  Seal& seal_;
  const std::string text_;
  UniqueFd stop_;
  std::list<Visitor> visitors_;
  std::thread thread_;
};

class DeskCourier final : public Courier {
 public:
  DeskCourier(DeskPlace place, int rank, std::unique_ptr<Seal> seal)
      : place_(std::move(place)), rank_(rank), seal_(std::move(seal)) {}

  Result<std::string> carry(const std::string& text, Nanoseconds limit) override {
    return rank_ == 0 ? open(text) : ask(later(clock_.now(), limit));
  }

 private:
  Result<std::string> open(const std::string& text) {
    desk_.reset();
    Status why;
    for (const std::uint16_t port : place_.ports) {
      Result<UniqueFd> listener = store::listen_tcp({place_.own_address, port}, store::HostIs::numbers);
      if (listener) {
        desk_ = std::make_unique<Desk>(std::move(*listener), *seal_, text);
        RONDE_RETURN_IF_ERROR(desk_->start());
        return text;
      }
      why = listener.status();
    }
    return why.with_context("rank 0 cannot tell the others where they meet");
  }

  Result<std::string> ask(Nanoseconds deadline) {
    const store::HostAndPort first{place_.first_host, place_.ports.front()};
    std::string why = "nobody listens there, or answers";
    while (true) {
      const Result<std::vector<store::TcpAddress>> known = store::resolve(first);
      for (const std::uint16_t port : known ? place_.ports : std::vector<std::uint16_t>()) {
        const Result<std::string> text = ask_at({first.host, port}, deadline);
        if (text) {
          return text;
        }
        // A refusal says more than that somewhere nobody listens, or answers in time.
        why = text.status().code() == Code::auth_failed ? text.status().message() : why;
      }
      if (clock_.now() >= deadline) {
        return Status::error(Code::timed_out, "Timed out: rank 0 does not tell where the ranks meet, at " + first.host +
                                                  ", ports " + list_ports() + " (" +
                                                  (known ? why : known.status().message()) +
                                                  "). Is it started, does it call init, and can this host reach it?");
      }
      ::poll(nullptr, 0, poll_timeout(std::min(deadline, clock_.now() + kBetweenRounds), clock_.now()));
    }
  }

  Result<std::string> ask_at(const store::HostAndPort& where, Nanoseconds deadline) {
    RONDE_ASSIGN_OR_RETURN(const std::vector<store::TcpAddress> addresses, store::resolve(where));
    for (const store::TcpAddress& address : addresses) {
      const UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (socket.is_open() && is_connected(socket.get(), address, std::min(deadline, clock_.now() + kOneConnect))) {
        return converse(socket.get(), std::min(deadline, clock_.now() + kPatience));
      }
    }
    return Status::error(Code::system_error, "nobody listens");
  }

  bool is_connected(int socket, const store::TcpAddress& address, Nanoseconds deadline) const {
    if (::connect(socket, address.get(), address.bytes) == 0) {
      return true;
    }
    int failure = errno;
    if (failure == EINPROGRESS && wait_for(socket, POLLOUT, deadline)) {
      socklen_t bytes = sizeof failure;
      ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &failure, &bytes);
    }
    return failure == 0;
  }

  Result<std::string> converse(int socket, Nanoseconds deadline) {
    RONDE_ASSIGN_OR_RETURN(const Bytes question, seal_->ask());
    const Bytes frame = framed(question);
    const Status other = Status::error(Code::system_error, "no answer");
    if (::send(socket, frame.data(), frame.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(frame.size())) {
      return other;
    }
    Bytes got;
    while (missing_of(got) != std::size_t{0}) {
      if (!wait_for(socket, POLLIN, deadline) || !receive_some(socket, got)) {
        return other;
      }
    }
    if (got.size() == sizeof(Length)) {
      return Status::error(Code::auth_failed,
                           "who listens there refuses this rank: it has another key, or is another job's");
    }
    return seal_->open(std::span(got).subspan(sizeof(Length)));
  }

  bool wait_for(int socket, short events, Nanoseconds deadline) const {
    pollfd entry{socket, events, 0};
    while (::poll(&entry, 1, poll_timeout(deadline, clock_.now())) <= 0) {
      if (clock_.now() >= deadline) {
        return false;
      }
    }
    return true;
  }

  std::string list_ports() const {
    return std::to_string(place_.ports.front()) + " and on, " + std::to_string(place_.ports.size()) + " of them";
  }

  const RealClock clock_;
  const DeskPlace place_;
  const int rank_;
  const std::unique_ptr<Seal> seal_;
  std::unique_ptr<Desk> desk_;  ///< of rank 0; before the seal that it uses goes
};

}  // namespace

std::unique_ptr<Courier> desk_courier(DeskPlace place, int rank, std::unique_ptr<Seal> seal) {
  return std::make_unique<DeskCourier>(std::move(place), rank, std::move(seal));
}

Result<std::vector<std::uint16_t>> desk_ports(const std::string& job, const Variables& variables) {
  constexpr std::uint16_t kCount = 8;
  store::PortRange range{20000, 27999};
  if (const std::optional<std::string> text = variables("RONDE_PORT_RANGE")) {
    RONDE_ASSIGN_OR_RETURN(range, store::parse_port_range(*text));
  }
  const std::uint64_t room = range.size();
  const std::uint64_t begin = mix(stable_hash(job)) % room;
  std::vector<std::uint16_t> ports;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(kCount, room); ++i) {
    ports.push_back(static_cast<std::uint16_t>(range.first + (begin + i) % room));
  }
  return ports;
}

}  // namespace ronde::site
