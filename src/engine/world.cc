#include "engine/world.h"

#include <limits>
#include <utility>

#include "backend/native/native.h"
#include "base/cores.h"
#include "base/environment.h"
#include "base/job_key.h"
#include "store/store_client.h"
#include "store/tcp_address.h"
#include "transport/loopback/loopback.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace ronde::engine {

namespace {

Result<int> number_of(const std::optional<int>& option, const char* variable, int fallback) {
  if (option) {
    return *option;
  }
  RONDE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> value,
                         environment_integer(variable, 0, std::numeric_limits<int>::max()));
  return value ? static_cast<int>(*value) : fallback;
}

Status check(const char* what, int rank, int size) {
  if (size < 1 || rank < 0 || rank >= size) {
    return Status::error(Code::invalid_argument, std::string(what) + " is " + std::to_string(rank) + " of " +
                                                     std::to_string(size) + "; it must be from 0 to size - 1");
  }
  return {};
}

std::optional<std::string> store_of(const JoinOptions& options) {
  return options.store ? options.store : environment_text("RONDE_STORE");
}

/// Where the ranks meet, and by what they know each other.
struct OpenStore {
  std::unique_ptr<store::Store> store;
  JobKey key;
};

Result<OpenStore> open_store(const JoinOptions& options, Nanoseconds limit) {
  const std::optional<std::string> address = store_of(options);
  const std::optional<std::string> key_text = options.key ? options.key : environment_text("RONDE_KEY");
  if (!address || !key_text) {
    return Status::error(Code::invalid_argument,
                         std::string("this job has more than one rank, but ") +
                             (address ? "RONDE_KEY" : "RONDE_STORE") +
                             " is not set, so the ranks cannot meet. Start the program with `ronde run -n N -- ...`");
  }
  RONDE_ASSIGN_OR_RETURN(const JobKey key, parse_job_key(*key_text));
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<store::Store> store, store::connect_store(*address, key, limit));
  return OpenStore{std::move(store), key};
}

Result<std::unique_ptr<transport::HostArena>> arena_of_one() {
  std::unique_ptr<transport::HostArena> arena = transport::make_solo_arena();
  if (!arena) {
    return Status::error(Code::out_of_memory, "no memory for the words that this rank's threads share");
  }
  return arena;
}

Result<std::unique_ptr<transport::HostArena>> meet(const JoinOptions& options, const Topology& topology,
                                                   const std::string& scope, Nanoseconds limit) {
  const Nanoseconds deadline = later(RealClock().now(), limit);  // one limit for all the steps together
  if (topology.size == 1) {
    return arena_of_one();
  }
  if (topology.local_size != topology.size) {
    return Status::error(Code::not_implemented, "this job has " + std::to_string(topology.size) + " ranks, " +
                                                    std::to_string(topology.local_size) +
                                                    " of them on this host; ranks of several hosts share no "
                                                    "memory: set RONDE_TRANSPORT=tcp");
  }
  RONDE_ASSIGN_OR_RETURN(const OpenStore opened, open_store(options, limit));
  return transport::meet_on_host(*opened.store, scope, topology.local_rank, topology.local_size,
                                 transport::RegionLayout::for_size(topology.local_size),
                                 time_left(RealClock(), deadline));
}

/// Ranks that reach each other over TCP, whatever they could share.
Result<Connections> connect_by_tcp(const JoinOptions& options, const Topology& topology, const std::string& scope,
                                   const Settings& settings) {
  const Nanoseconds deadline = later(RealClock().now(), settings.init_timeout);
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<transport::HostArena> own, arena_of_one());
  RONDE_ASSIGN_OR_RETURN(const OpenStore opened, open_store(options, settings.init_timeout));
  RONDE_ASSIGN_OR_RETURN(
      transport::TcpLinks links,
      transport::meet_by_tcp(*opened.store, opened.key, scope + "/tcp", topology.rank, topology.size, settings.address,
                             {transport::HostTimeout(settings.host_timeout), settings.integrity},
                             time_left(RealClock(), deadline)));
  transport::HostArena* const bell = own.get();  // it outlives who rings it: both belong to the connections
  Connections connections = Connections::by_messages(std::move(own), std::move(links.who), topology.rank,
                                                     std::move(links.job), [bell] { bell->ring(bell->rank()); });
  connections.links_for_groups = std::move(links.groups);
  return connections;
}

}  // namespace

Result<Topology> topology_of(const JoinOptions& options) {
  Topology topology;
  RONDE_ASSIGN_OR_RETURN(topology.size, number_of(options.size, "RONDE_SIZE", 1));
  RONDE_ASSIGN_OR_RETURN(topology.rank, number_of(options.rank, "RONDE_RANK", 0));
  RONDE_RETURN_IF_ERROR(check("the rank", topology.rank, topology.size));
  RONDE_ASSIGN_OR_RETURN(topology.local_size, number_of(options.local_size, "RONDE_LOCAL_SIZE", topology.size));
  RONDE_ASSIGN_OR_RETURN(topology.local_rank, number_of(options.local_rank, "RONDE_LOCAL_RANK", topology.rank));
  RONDE_RETURN_IF_ERROR(check("the local rank", topology.local_rank, topology.local_size));
  RONDE_ASSIGN_OR_RETURN(topology.cross_size, number_of(options.cross_size, "RONDE_CROSS_SIZE", 1));
  RONDE_ASSIGN_OR_RETURN(topology.cross_rank, number_of(options.cross_rank, "RONDE_CROSS_RANK", 0));
  RONDE_RETURN_IF_ERROR(check("the cross rank", topology.cross_rank, topology.cross_size));
  return topology;
}

Result<std::unique_ptr<store::StoreServer>> serve_store(const JoinOptions& options, std::string& served) {
  RONDE_ASSIGN_OR_RETURN(const Topology topology, topology_of(options));
  const std::optional<std::string> address = store_of(options);
  const std::optional<std::string> key_text = options.key ? options.key : environment_text("RONDE_KEY");
  constexpr std::string_view kTcp = "tcp:";
  if (topology.rank != 0 || topology.size == 1 || !address || !address->starts_with(kTcp) || *address == served ||
      !key_text) {
    return std::unique_ptr<store::StoreServer>();
  }
  RONDE_ASSIGN_OR_RETURN(const JobKey key, parse_job_key(*key_text));
  RONDE_ASSIGN_OR_RETURN(const store::HostAndPort where, store::parse_host_and_port(address->substr(kTcp.size())));
  Result<UniqueFd> listener = store::listen_tcp(where);
  if (!listener) {
    return listener.status().with_context("rank 0 serves the job's store at RONDE_STORE, " + *address);
  }
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<store::StoreServer> server,
                         store::StoreServer::start(std::move(*listener), key));
  served = *address;
  return server;
}

Result<std::unique_ptr<Runner>> join_world(const JoinOptions& options, const std::string& meeting, std::uint64_t epoch,
                                           const Clock& clock) {
  RONDE_ASSIGN_OR_RETURN(Settings settings, settings_from_environment());
  RONDE_ASSIGN_OR_RETURN(const std::optional<collectives::Table> given, collectives::Table::from_environment());
  settings.timeout = options.timeout != 0 ? options.timeout : settings.timeout;
  settings.init_timeout = options.init_timeout != 0 ? options.init_timeout : settings.init_timeout;
  RONDE_ASSIGN_OR_RETURN(Topology topology, topology_of(options));
  topology.epoch = epoch;
  const std::string scope = meeting + "/" + std::to_string(epoch);
  const bool is_of_one_host = store::is_of_one_host(store_of(options).value_or(""));
  const bool by_tcp = topology.size > 1 && (settings.medium == Settings::Medium::tcp ||
                                            (settings.medium == Settings::Medium::as_they_meet && !is_of_one_host));
  Connections connections;
  // The first rank's row is everyone's.
  TablePlan plan = plan_table(given, !by_tcp && settings.probe && topology.local_rank == 0, topology.local_size,
                              cores_of_this_process(), collectives::TableCache::of_this_user);
  if (by_tcp) {
    RONDE_ASSIGN_OR_RETURN(connections, connect_by_tcp(options, topology, scope, settings));
  } else {
    RONDE_ASSIGN_OR_RETURN(std::unique_ptr<transport::HostArena> arena,
                           meet(options, topology, scope, settings.init_timeout));
    std::unique_ptr<backend::Backend> backend = backend::make_native_backend(*arena, plan.table);
    connections = Connections::on_host(std::move(arena), std::move(backend));
  }
  RONDE_ASSIGN_OR_RETURN(
      std::unique_ptr<Runner> runner,
      Runner::start(std::make_unique<Engine>(topology, std::move(connections), settings, clock), clock, plan.table));
  if (!settings.timeline.empty() && meeting == kSharedMeeting) {  // others would write the same files
    // After a new init the file of the one before stays.
    const std::string path = settings.timeline + (epoch > 1 ? ".init" + std::to_string(epoch) : "");
    RONDE_RETURN_IF_ERROR(runner->start_timeline(path, settings.mark_cycles).with_context("RONDE_TIMELINE"));
  }
  if (plan.task) {
    runner->start_probing(std::move(*plan.task));
  }
  return runner;
}

Result<std::int32_t> make_group(Runner& runner, const JoinOptions& options, const std::vector<int>& ranks) {
  const Settings& settings = runner.engine().settings();
  const Nanoseconds limit = options.init_timeout != 0 ? options.init_timeout : settings.init_timeout;
  if (!options.meeting) {
    return Status::error(Code::invalid_argument, "a group that its members make needs a name to meet under");
  }
  Meeting meeting;
  meeting.deadline = later(RealClock().now(), limit);
  meeting.size = static_cast<int>(ranks.size());
  meeting.name = "group/" + std::to_string(runner.engine().topology().epoch) + "/" + *options.meeting;
  OpenStore opened;
  if (ranks.size() > 1) {
    RONDE_ASSIGN_OR_RETURN(opened, open_store(options, limit));
    meeting.store = opened.store.get();
  }
  return runner.groups().make_with_members(ranks, meeting, options.timeout != 0 ? options.timeout : settings.timeout);
}

}  // namespace ronde::engine
