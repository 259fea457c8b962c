// How the ranks of a job meet over a fabric: all open it and tell in the store where, connect by TCP, and send each
// other a first word over it.
#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/host_name.h"
#include "ofi/library.h"
#include "transport/ofi/endpoint.h"
#include "transport/ofi/ofi.h"
#include "transport/ofi/ofi_pipe.h"
#include "transport/ofi/told_of_fabric.h"
#include "transport/tcp/joint_start.h"

namespace ronde::transport {

namespace {

/// Between two tries to greet a rank.
constexpr Nanoseconds kGreetingPause = 50 * kMillisecond;
/// Between looks in which nothing needs to have come: some providers get ahead only when they are looked at.
constexpr int kLookMilliseconds = 2;

Result<std::shared_ptr<OfiEndpoint>> open_endpoint(const OfiOptions& options, const std::string& address,
                                                   std::size_t peers, std::size_t most) {
  RONDE_ASSIGN_OR_RETURN(const ofi::OfiLibrary library, ofi::OfiLibrary::open());
  FabricOptions fabric;
  fabric.provider = options.provider;
  fabric.address = address;
  fabric.may_wait = options.may_wait;
  return OfiEndpoint::open(library, fabric, peers, most);
}

ToldOfFabric told_of(const Result<std::shared_ptr<OfiEndpoint>>& opened) {
  ToldOfFabric told;
  told.host = host_name();
  if (!opened) {
    told.failure = opened.status().message();
    return told;
  }
  const OfiEndpoint& endpoint = *opened.value();
  const fi_info& info = endpoint.fabric().info();
  told.library = endpoint.fabric().library().version();
  told.provider = endpoint.fabric().provider();
  told.protocol = info.ep_attr->protocol;
  told.protocol_version = info.ep_attr->protocol_version;
  told.fragment_bytes = endpoint.room().fragment_bytes;
  told.width = endpoint.room().width;
  told.needs_bells = endpoint.needs_bells();
  told.address = endpoint.address();
  return told;
}

/// What all ranks tell, once it is known that they reach one fabric.
Result<std::vector<ToldOfFabric>> tell_all(store::Store& store, const std::string& scope, int rank, int size,
                                           const ToldOfFabric& own, Nanoseconds limit) {
  store::Value value;
  value.bytes = own.encode();
  RONDE_ASSIGN_OR_RETURN(const auto values, store.exchange(scope, rank, size, std::move(value), limit));
  std::vector<ToldOfFabric> all;
  for (std::size_t each = 0; each < values.size(); ++each) {
    Result<ToldOfFabric> told = ToldOfFabric::decode(values[each].bytes);
    if (!told) {
      return told.status().with_context("rank " + std::to_string(each)).with_rank(static_cast<int>(each));
    }
    all.push_back(std::move(*told));
  }
  RONDE_RETURN_IF_ERROR(reach_one_fabric(all));
  return all;
}

/// The first words between this rank and all others. Of two ranks the higher begins: providers that connect two
/// endpoints at their first message need not settle who of the two has connected.
class FirstWords {
 public:
  FirstWords(OfiEndpoint& endpoint, int rank, std::vector<OfiPipe*> pipes, const std::vector<ToldOfFabric>& all)
      : endpoint_(endpoint),
        rank_(static_cast<std::size_t>(rank)),
        pipes_(std::move(pipes)),
        all_(all),
        tries_at_(pipes_.size(), 0),
        failures_(pipes_.size()) {}

  Status exchange(Nanoseconds deadline) {
    while (true) {
      endpoint_.look();
      RONDE_RETURN_IF_ERROR(endpoint_.status());
      const Nanoseconds now = clock_.now();
      if (greet(now)) {
        return {};
      }
      if (now >= deadline) {
        return Status::error(Code::timed_out, std::string(kStartTimedOut) + ": over libfabric's provider " +
                                                  endpoint_.fabric().provider() + " nothing comes from " + missing() +
                                                  " within the time to start");
      }
      wait();
    }
  }

 private:
  /// True once all have been heard and have been sent a word.
  bool greet(Nanoseconds now) {
    bool all = true;
    for (std::size_t peer = 0; peer < pipes_.size(); ++peer) {
      OfiPipe* const pipe = pipes_[peer];
      if (pipe == nullptr) {
        continue;
      }
      if (std::optional<std::string> why = pipe->take_failure()) {
        failures_[peer] = std::move(*why);
        tries_at_[peer] = now + kGreetingPause;
      }
      const bool is_its_turn = peer < rank_ || pipe->has_heard();
      const bool has_greeted = is_its_turn && now >= tries_at_[peer] && pipe->greet();
      all = has_greeted && pipe->has_heard() && pipe->is_quiet() && all;
    }
    return all;
  }
  std::string missing() const {
    std::string text;
    for (std::size_t peer = 0; peer < pipes_.size(); ++peer) {
      if (pipes_[peer] != nullptr && !(pipes_[peer]->has_heard() && pipes_[peer]->is_quiet())) {
        text += (text.empty() ? "rank " : ", rank ") + std::to_string(peer) + " (host " + all_[peer].host +
                (failures_[peer].empty() ? ")" : "; " + failures_[peer] + ")");
      }
    }
    return text;
  }
  void wait() {
    std::vector<pollfd> fds;
    for (const SharedNews::Watched& each : endpoint_.descriptors()) {
      if (!each.is_edge) {
        fds.push_back({each.fd, POLLIN, 0});
      }
    }
    ::poll(fds.data(), fds.size(), kLookMilliseconds);
    endpoint_.note_events();
  }

  const RealClock clock_;
  OfiEndpoint& endpoint_;
  const std::size_t rank_;
  const std::vector<OfiPipe*> pipes_;  ///< by rank
  const std::vector<ToldOfFabric>& all_;
  std::vector<Nanoseconds> tries_at_;
  std::vector<std::string> failures_;
};

/// Pipes to all ranks to which there is a connection, who have been heard.
Status make_pipes(const std::shared_ptr<OfiEndpoint>& endpoint, std::vector<TcpConnection> connections, int rank,
                  const std::vector<ToldOfFabric>& all, Integrity integrity, Nanoseconds deadline,
                  std::vector<std::unique_ptr<Pipe>>& made) {
  std::vector<OfiPipe*> pipes(connections.size());
  made.resize(connections.size());
  for (std::size_t peer = 0; peer < connections.size(); ++peer) {
    if (!connections[peer].is_open()) {
      continue;
    }
    RONDE_ASSIGN_OR_RETURN(const fi_addr_t address, endpoint->insert(all[peer].address));
    auto pipe = std::make_unique<OfiPipe>(std::move(connections[peer]),
                                          OfiPipe::Peer{static_cast<int>(peer), address, all[peer].needs_bells},
                                          integrity, endpoint);
    RONDE_RETURN_IF_ERROR(pipe->status());
    pipes[peer] = pipe.get();
    made[peer] = std::move(pipe);
  }
  return FirstWords(*endpoint, rank, std::move(pipes), all).exchange(deadline);
}

}  // namespace

Result<OfiConnections> connect_by_ofi(store::Store& store, const JobKey& key, const std::string& scope, int rank,
                                      int size, const std::string& address, const OfiOptions& options,
                                      const TcpOptions& tcp, Nanoseconds limit, std::vector<bool> reached) {
  const RealClock clock;
  const Nanoseconds deadline = later(clock.now(), limit);
  const auto most = static_cast<std::size_t>(size - 1);
  const auto here = static_cast<std::size_t>(std::count(reached.begin(), reached.end(), true));
  const std::size_t peers = here == 0 ? most : static_cast<std::size_t>(size) - here;  // this rank is one of those
  Result<std::shared_ptr<OfiEndpoint>> endpoint = open_endpoint(options, address, peers, most);
  RONDE_ASSIGN_OR_RETURN(const std::vector<ToldOfFabric> all,
                         tell_all(store, scope + "/fabric", rank, size, told_of(endpoint), limit));
  RONDE_ASSIGN_OR_RETURN(TcpConnections connected, connect_by_tcp(store, key, scope, rank, size, address, tcp,
                                                                  time_left(clock, deadline), std::move(reached)));
  OfiConnections made;
  // The others wait for this rank's word: so it comes in time.
  const Nanoseconds left = time_left(clock, deadline);
  const Status greeted = make_pipes(*endpoint, std::move(connected.connections), rank, all, tcp.integrity,
                                    left == kNever ? kNever : clock.now() + left / 10 * 9, made.pipes);
  RONDE_RETURN_IF_ERROR(agree_on_start(store, scope + "/greeted", rank, size, greeted, time_left(clock, deadline)));
  made.shared = std::move(*endpoint);
  made.who = std::move(connected.who);
  made.news = std::move(connected.news);
  return made;
}

}  // namespace ronde::transport
