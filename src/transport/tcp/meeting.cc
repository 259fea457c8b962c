// How the ranks of a job find and connect each other: all listen, all tell in the store where, and of two ranks the
// higher connects.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <list>
#include <utility>

#include "base/host_name.h"
#include "store/port_range.h"
#include "store/strangers.h"
#include "store/tcp_address.h"
#include "transport/tcp/announced.h"
#include "transport/tcp/greeting.h"
#include "transport/tcp/joint_start.h"
#include "transport/tcp/silence.h"
#include "transport/tcp/tcp.h"

namespace ronde::transport {

namespace {

/// A stranger gets this long for a few dozen bytes; there may be so many more of them than ranks at a time.
constexpr Nanoseconds kGreetingLimit = 5 * kSecond;
constexpr std::size_t kMostStrangers = 64;
/// A few a round, so that those who have come before are heard.
constexpr int kAcceptsPerRound = 32;
constexpr const char* kHint = ", which is no address for other hosts: please set RONDE_ADDRESS there)";
/// Between attempts to reach a rank that listens already, but does not answer.
constexpr Nanoseconds kRetryPause = 20 * kMillisecond;

Status set_options(TcpConnection& connection, const TcpOptions& options) {
  const int on = 1;
  ::setsockopt(connection.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  have_kernel_watch(connection.socket.get(), options.timeout);
  return connection.congestion.choose(connection.socket.get(), options.congestion_control);
}

/// Connects this rank with all others.
class Connector {
 public:
  Connector(const TcpMeeting& meeting, UniqueFd listener, const std::vector<Announced>& all, std::vector<bool> reached,
            const TcpOptions& options)
      : meeting_(meeting),
        options_(options),
        listener_(std::move(listener)),
        all_(all),
        reached_(std::move(reached)),
        connections_(all.size()),
        calls_at_(all.size(), 0) {
    reached_.resize(all.size());
    reached_[static_cast<std::size_t>(meeting.rank)] = true;
  }

  Status connect(Nanoseconds deadline) {
    while (!is_complete()) {
      const Nanoseconds now = clock_.now();
      if (now >= deadline) {
        return Status::error(Code::timed_out, std::string(kStartTimedOut) + ": no connection with " + missing() +
                                                  " within the time to start");
      }
      RONDE_RETURN_IF_ERROR(call(now));
      wait(deadline, now);
      RONDE_RETURN_IF_ERROR(accept_some());
      RONDE_RETURN_IF_ERROR(advance(clock_.now()));
    }
    return {};
  }

  std::vector<TcpConnection> take() { return std::move(connections_); }

 private:
  struct Under {  ///< way
    Greeting greeting;
    int to;  ///< -1: accepted
    Nanoseconds deadline;
    store::TcpAddress from{};  ///< of an accepted one
    bool has_news = false;

    bool is_stranger() const { return to < 0; }
  };

  bool has(int peer) const {
    const auto index = static_cast<std::size_t>(peer);
    return reached_[index] || connections_[index].is_open();
  }
  bool is_complete() const {
    for (int peer = 0; peer < meeting_.size; ++peer) {
      if (!has(peer)) {
        return false;
      }
    }
    return true;
  }
  std::string missing() const {
    std::string text;
    for (int peer = 0; peer < meeting_.size; ++peer) {
      if (!has(peer)) {
        const Announced& who = all_[static_cast<std::size_t>(peer)];
        text += (text.empty() ? "rank " : ", rank ") + std::to_string(peer) + " (" + who.who.host + ", " + who.address +
                " port " + std::to_string(who.port) + (is_of_its_host_alone(who) ? kHint : ")");
      }
    }
    return text;
  }

  /// A loopback address that another host tells.
  bool is_of_its_host_alone(const Announced& who) const {
    return who.who.host != all_[static_cast<std::size_t>(meeting_.rank)].who.host &&
           (who.address.starts_with("127.") || who.address == "::1");
  }

  /// Those that it is for this rank to connect to.
  Status call(Nanoseconds now) {
    for (int peer = 0; peer < meeting_.rank; ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      const bool is_called =
          std::any_of(under_way_.begin(), under_way_.end(), [&](const Under& each) { return each.to == peer; });
      if (has(peer) || is_called || now < calls_at_[index]) {
        continue;
      }
      calls_at_[index] = now + kRetryPause;
      RONDE_ASSIGN_OR_RETURN(const std::vector<store::TcpAddress> found,
                             store::resolve({all_[index].address, all_[index].port}, store::HostIs::numbers));
      const store::TcpAddress& address = found.front();
      UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket.is_open()) {
        return Status::from_errno("socket()", errno);
      }
      if (::connect(socket.get(), address.get(), address.bytes) != 0 && errno != EINPROGRESS) {
        continue;  // tried again, until the time is up
      }
      under_way_.push_back({Greeting::to(std::move(socket), meeting_, peer), peer, now + kGreetingLimit});
    }
    return {};
  }

  void wait(Nanoseconds deadline, Nanoseconds now) {
    std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
    Nanoseconds until = deadline;
    for (const Under& each : under_way_) {
      fds.push_back({each.greeting.socket(), each.greeting.events(), 0});
      until = std::min(until, each.deadline);
    }
    for (int peer = 0; peer < meeting_.rank; ++peer) {
      const Nanoseconds at = calls_at_[static_cast<std::size_t>(peer)];
      until = has(peer) || at <= now ? until : std::min(until, at);
    }
    ::poll(fds.data(), fds.size(), poll_timeout(until, now));
    auto event = fds.begin() + 1;
    for (Under& each : under_way_) {
      each.has_news = event++->revents != 0;
    }
  }

  Status accept_some() {
    for (int accepted = 0; accepted < kAcceptsPerRound; ++accepted) {
      store::TcpAddress from;
      UniqueFd socket = store::accept_from(listener_.get(), from);
      if (!socket.is_open()) {
        const bool is_used_up = errno == EMFILE || errno == ENFILE;
        return is_used_up ? Status::from_errno("accepting a connection", errno) : Status();
      }
      if (static_cast<std::size_t>(std::count_if(under_way_.begin(), under_way_.end(),
                                                 std::mem_fn(&Under::is_stranger))) >= kMostStrangers + all_.size()) {
        // The first to come.
        drop(std::find_if(under_way_.begin(), under_way_.end(), std::mem_fn(&Under::is_stranger)));
      }
      under_way_.push_back(
          {Greeting::from_anybody(std::move(socket), meeting_), -1, clock_.now() + kGreetingLimit, from, true});
    }
    return {};
  }

  /// One that has not proved the key.
  std::list<Under>::iterator drop(std::list<Under>::iterator which) {
    if (which->is_stranger()) {
      store::count_stranger(which->from, "its port for other ranks", meeting_.rank);
    }
    return under_way_.erase(which);
  }

  Status advance(Nanoseconds now) {
    for (auto each = under_way_.begin(); each != under_way_.end();) {
      Greeted how = Greeted::not_yet;
      if (std::exchange(each->has_news, false)) {
        how = each->greeting.advance();
      }
      if (how == Greeted::done && !has(each->greeting.peer())) {
        const auto peer = static_cast<std::size_t>(each->greeting.peer());
        connections_[peer] = each->greeting.take();
        RONDE_RETURN_IF_ERROR(set_options(connections_[peer], options_));
      }
      if (how == Greeted::done) {
        each = under_way_.erase(each);
      } else {
        each = how == Greeted::refused || now >= each->deadline ? drop(each) : std::next(each);
      }
    }
    return {};
  }

  const TcpMeeting& meeting_;
  const TcpOptions options_;
  const RealClock clock_;
  UniqueFd listener_;
  const std::vector<Announced>& all_;
  std::vector<bool> reached_;  ///< by rank: needs no connection
  std::vector<TcpConnection> connections_;
  std::vector<Nanoseconds> calls_at_;  ///< by rank: not before
  std::list<Under> under_way_;
};

}  // namespace

Result<TcpConnections> connect_by_tcp(store::Store& store, const JobKey& key, const std::string& scope, int rank,
                                      int size, const std::string& address, const TcpOptions& options,
                                      Nanoseconds limit, std::vector<bool> reached) {
  const RealClock clock;
  const Nanoseconds deadline = later(clock.now(), limit);
  const TcpMeeting meeting{key, scope, rank, size};
  Announced mine;
  mine.who = {host_name(), ::getpid()};
  mine.address = address;
  mine.integrity = static_cast<std::uint8_t>(options.integrity);
  Result<UniqueFd> listener = store::listen_in_range(address);
  if (listener) {
    RONDE_ASSIGN_OR_RETURN(mine.port, store::port_of(listener->get()));
  }
  mine.failure = listener.status().message();
  store::Value value;
  value.bytes = mine.encode();
  RONDE_ASSIGN_OR_RETURN(const auto values, store.exchange(scope, rank, size, std::move(value), limit));
  std::vector<Announced> all;
  std::vector<PeerInfo> who;
  for (std::size_t peer = 0; peer < values.size(); ++peer) {
    Result<Announced> announced = Announced::decode(values[peer].bytes);
    if (!announced) {
      return announced.status().with_context("rank " + std::to_string(peer)).with_rank(static_cast<int>(peer));
    }
    if (announced->integrity != mine.integrity) {
      return Status::error(Code::invalid_argument,
                           "rank " + std::to_string(peer) + " (host " + announced->who.host +
                               ") has another RONDE_TCP_INTEGRITY than this rank; all ranks need one")
          .with_rank(static_cast<int>(peer));
    }
    who.push_back(announced->who);
    all.push_back(std::move(*announced));
  }
  Connector connector(meeting, std::move(*listener), all, std::move(reached), options);
  // The others wait for this rank's word: so it comes in time.
  const Nanoseconds left = time_left(clock, deadline);
  const Status connected = connector.connect(left == kNever ? kNever : clock.now() + left / 10 * 9);
  Result<NewsDescriptors> news = connected ? NewsDescriptors::make() : Result<NewsDescriptors>(connected);
  RONDE_RETURN_IF_ERROR(
      agree_on_start(store, scope + "/connected", rank, size, news.status(), time_left(clock, deadline)));
  return TcpConnections{connector.take(), std::move(who), std::move(*news)};
}

}  // namespace ronde::transport
