#include "engine/process/world.h"

#include <limits>
#include <utility>

#include "backend/mpi/mpi.h"
#include "backend/oneccl/oneccl_world.h"
#include "backend/shm/shm.h"
#include "base/cores.h"
#include "base/environment.h"
#include "base/job_key.h"
#include "base/log.h"
#include "engine/process/first_table.h"
#include "engine/process/world_connections.h"
#include "site/membership.h"
#include "store/interfaces.h"
#include "store/store_client.h"
#include "store/tcp_address.h"
#include "transport/hosts/hosts.h"
#include "transport/loopback/loopback.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace ronde::engine {

namespace {

constexpr std::string_view kTcp = "tcp:";

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

Result<std::optional<JobKey>> key_of(const JoinOptions& options) {
  if (!options.key) {
    return site::key_of_user(site::own_variables());
  }
  RONDE_ASSIGN_OR_RETURN(const JobKey key, parse_job_key(*options.key));
  return std::optional<JobKey>(key);
}

/// Where rank 0 serves the store: a name that its own host takes for a loopback address, as Debian's /etc/hosts has it,
/// is another address for other hosts.
Result<store::HostAndPort> reachable(store::HostAndPort where) {
  const bool is_name = where.host != "localhost" && !store::resolve(where, store::HostIs::numbers);
  RONDE_ASSIGN_OR_RETURN(const std::string towards, store::address_towards(where));
  if (is_name && store::is_loopback(towards)) {
    RONDE_ASSIGN_OR_RETURN(where.host, site::choose_own_address("", site::own_variables()));
  }
  return where;
}

Result<std::string> reachable_store(const std::string& address) {
  if (!address.starts_with(kTcp)) {
    return address;
  }
  RONDE_ASSIGN_OR_RETURN(const store::HostAndPort named, store::parse_host_and_port(address.substr(kTcp.size())));
  const Result<store::HostAndPort> where = reachable(named);  // if it is not known, who connects says so
  return where && where.value().host != named.host
             ? std::string(kTcp) + "[" + where.value().host + "]:" + std::to_string(named.port)
             : address;
}

/// Where the ranks meet, and by what they know each other.
struct OpenStore {
  std::unique_ptr<store::Store> store;
  JobKey key;
};

Result<OpenStore> open_store(const JoinOptions& options, Nanoseconds limit) {
  const std::optional<std::string> address = store_of(options);
  RONDE_ASSIGN_OR_RETURN(const std::optional<JobKey> key, key_of(options));
  if (!address || !key) {
    return Status::error(Code::invalid_argument,
                         std::string("this job has more than one rank, but ") +
                             (address ? "RONDE_KEY" : "RONDE_STORE") +
                             " is not set, so the ranks cannot meet. Start the program with `ronde run -n N -- ...`");
  }
  RONDE_ASSIGN_OR_RETURN(const std::string place, reachable_store(*address));
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<store::Store> store, store::connect_store(place, *key, limit));
  return OpenStore{std::move(store), *key};
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
    return Status::error(Code::invalid_argument,
                         "RONDE_TRANSPORT=shm, but of this job's " + std::to_string(topology.size) + " ranks only " +
                             std::to_string(topology.local_size) +
                             " are on this host, and hosts share no memory: leave it out, or set "
                             "RONDE_TRANSPORT=tcp");
  }
  RONDE_ASSIGN_OR_RETURN(const OpenStore opened, open_store(options, limit));
  return transport::meet_on_host(*opened.store, scope, topology.local_rank, topology.local_size,
                                 transport::RegionLayout::for_size(topology.local_size),
                                 time_left(RealClock(), deadline));
}

/// Where this rank listens while ranks connect.
Result<std::string> own_address(const JoinOptions& options, const Settings& settings) {
  const std::string store = store_of(options).value_or("");
  if (!settings.address.empty() || options.address || store::is_of_one_host(store)) {
    return !settings.address.empty() ? settings.address : options.address.value_or("127.0.0.1");
  }
  RONDE_ASSIGN_OR_RETURN(const store::HostAndPort named, store::parse_host_and_port(store.substr(kTcp.size())));
  RONDE_ASSIGN_OR_RETURN(const store::HostAndPort where, reachable(named));
  return site::choose_own_address(where.host, site::own_variables());
}

/// What an engine is to be made of: an arena that all ranks share, or connections.
struct Met {
  std::shared_ptr<transport::HostArena> arena;
  JobConnections connections;
  JobClock clock = {};  ///< of ranks that have connected to each other
};

JobConnections connections_over(std::shared_ptr<transport::HostArena> own, transport::JobLinks links, int rank,
                                const collectives::HostTable& table, std::vector<int> first_of = {}) {
  const transport::HostArena* const bell = own.get();  // it outlives who rings it: both belong to the connections
  return connect_by_messages(
      std::move(own), std::move(links.who), rank, std::move(links.job), [bell] { bell->bells().ring(bell->rank()); },
      std::move(first_of), std::move(links.groups), table);
}

/// Rank 0's table is everyone's.
Result<collectives::HostTable> agree_on_table(store::Store& store, const std::string& scope, const Topology& topology,
                                              Nanoseconds deadline) {
  store::Value own;
  if (topology.rank == 0) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<std::string> given, collectives::table_text_from_environment());
    const std::string text = given.value_or("");
    const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
    own.bytes.assign(bytes.begin(), bytes.end());
  }
  RONDE_ASSIGN_OR_RETURN(const std::vector<store::Value> all,
                         store.exchange(scope + "/table", topology.rank, topology.size, std::move(own),
                                        time_left(RealClock(), deadline)));
  const std::vector<std::byte>& first = all.front().bytes;
  if (first.empty()) {
    return collectives::HostTable::built_in();
  }
  return collectives::HostTable::parse({reinterpret_cast<const char*>(first.data()), first.size()});
}

/// Through what ranks of several hosts reach each other, if not by TCP.
std::optional<transport::OfiOptions> ofi_options(const Settings& settings) {
  if (settings.medium != Settings::Medium::ofi) {
    return std::nullopt;
  }
  transport::OfiOptions options;
  options.provider = settings.ofi_provider;
  return options;
}

transport::TcpOptions tcp_options(const Settings& settings) {
  return {transport::HostTimeout(settings.host_timeout), settings.integrity, settings.congestion_control};
}

/// For timelines alone: a job goes on without it.
JobClock clock_by(store::Store& store, Nanoseconds deadline) {
  Result<JobClock> clock = store.compare_clocks(time_left(RealClock(), deadline));
  return clock ? std::move(*clock) : JobClock();
}

/// Ranks that reach each other over TCP, whatever they could share.
Result<Met> meet_by_tcp(const JoinOptions& options, const Topology& topology, const std::string& scope,
                        const Settings& settings) {
  const Nanoseconds deadline = later(RealClock().now(), settings.init_timeout);
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<transport::HostArena> own, arena_of_one());
  RONDE_ASSIGN_OR_RETURN(const OpenStore opened, open_store(options, settings.init_timeout));
  RONDE_ASSIGN_OR_RETURN(const std::string address, own_address(options, settings));
  RONDE_ASSIGN_OR_RETURN(transport::JobLinks links,
                         transport::meet_by_tcp(*opened.store, opened.key, scope + "/tcp", topology.rank, topology.size,
                                                address, tcp_options(settings), time_left(RealClock(), deadline)));
  RONDE_ASSIGN_OR_RETURN(const collectives::HostTable table, agree_on_table(*opened.store, scope, topology, deadline));
  return Met{nullptr, connections_over(std::move(own), std::move(links), topology.rank, table),
             clock_by(*opened.store, deadline)};
}

/// Ranks that share memory with those of their host. Where all are of one, it is as if its launcher had said so.
Result<Met> meet_by_hosts(const JoinOptions& options, const Topology& topology, const std::string& scope,
                          const Settings& settings) {
  const Nanoseconds deadline = later(RealClock().now(), settings.init_timeout);
  RONDE_ASSIGN_OR_RETURN(const OpenStore opened, open_store(options, settings.init_timeout));
  const transport::HostClaim claim{
      settings.host_id, options.local_size || environment_text("RONDE_LOCAL_SIZE") ? topology.local_size : 1};
  RONDE_ASSIGN_OR_RETURN(const transport::Hosts hosts,
                         transport::find_hosts(*opened.store, opened.key, scope + "/hosts", topology.rank,
                                               topology.size, claim, time_left(RealClock(), deadline)));
  if (hosts.count() == 1) {
    return Met{hosts.arena, {}};
  }
  RONDE_ASSIGN_OR_RETURN(const std::string address, own_address(options, settings));
  RONDE_ASSIGN_OR_RETURN(
      transport::HostLinks made,
      transport::connect_hosts(*opened.store, opened.key, scope + "/tcp", topology.rank, topology.size, address, hosts,
                               tcp_options(settings), time_left(RealClock(), deadline), ofi_options(settings)));
  RONDE_ASSIGN_OR_RETURN(const collectives::HostTable table, agree_on_table(*opened.store, scope, topology, deadline));
  JobConnections connections =
      connections_over(std::move(made.own), std::move(made.links), topology.rank, table, hosts.first_of);
  return Met{nullptr, std::move(connections), clock_by(*opened.store, deadline)};
}

/// As the settings and the kind of store say.
Result<Met> meet_others(const JoinOptions& options, const Topology& topology, const std::string& scope,
                        const Settings& settings) {
  using Medium = Settings::Medium;
  if (topology.size > 1 && settings.medium == Medium::tcp) {
    return meet_by_tcp(options, topology, scope, settings);
  }
  const bool is_of_one_host =
      topology.local_size == topology.size && store::is_of_one_host(store_of(options).value_or(""));
  if (topology.size > 1 && (settings.medium == Medium::hosts || settings.medium == Medium::ofi ||
                            (settings.medium == Medium::as_they_meet && !is_of_one_host))) {
    return meet_by_hosts(options, topology, scope, settings);
  }
  Result<std::unique_ptr<transport::HostArena>> arena = meet(options, topology, scope, settings.init_timeout);
  if (arena) {
    return Met{std::move(*arena), {}};
  }
  // Why memory cannot be shared all ranks hear in one sentence (meet_on_host), so all go on in the same way.
  if (settings.medium != Medium::as_they_meet || arena.status().code() != Code::system_error || topology.size == 1) {
    return arena.status();
  }
  Result<Met> met = meet_by_tcp(options, topology, scope, settings);
  if (met && topology.rank == 0) {
    log(LogLevel::warning, 0,
        "the ranks of this host can share no memory: " + arena.status().message() +
            "; they reach each other over TCP, which is slower. 'ronde doctor' says there what the machine allows");
  }
  return met ? std::move(met) : arena.status();
}

/// The one that RONDE_BACKEND names, on all ranks.
Result<std::shared_ptr<backend::CollectiveLibrary>> join_library(const JoinOptions& options, const Topology& topology,
                                                                 const std::string& scope, const Settings& settings) {
  using Made = Result<std::shared_ptr<backend::CollectiveLibrary>>;
  if (settings.library == Settings::Library::mpi) {
    Made made = backend::join_mpi(topology.rank, topology.size);
    return made ? std::move(made) : Made(made.status().with_context("RONDE_BACKEND=mpi"));
  }
  RONDE_ASSIGN_OR_RETURN(const OpenStore opened, open_store(options, settings.init_timeout));
  const auto exchange = [&](std::vector<std::byte> own) -> Result<std::vector<std::vector<std::byte>>> {
    store::Value value;
    value.bytes = std::move(own);
    RONDE_ASSIGN_OR_RETURN(std::vector<store::Value> values,
                           opened.store->exchange(scope + "/oneccl", topology.rank, topology.size, std::move(value),
                                                  settings.init_timeout));
    std::vector<std::vector<std::byte>> words;
    for (store::Value& each : values) {
      words.push_back(std::move(each.bytes));
    }
    return words;
  };
  Made made = backend::oneccl::OneCclWorld::join(topology.rank, topology.size, exchange, settings.init_timeout);
  return made ? std::move(made) : Made(made.status().with_context("RONDE_BACKEND=oneccl"));
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

/// MPI has begun to speak with Slurm's PMI, which then refuses to begin again: ranks meet as without one.
site::Variables without_pmi_of_slurm(const site::Variables& variables) {
  return [variables](const char* name) {
    const bool is_hidden = std::string_view(name) == "PMI_FD" && variables("SLURM_STEP_ID");
    return is_hidden ? std::optional<std::string>() : variables(name);
  };
}

Result<JoinOptions> complete(const JoinOptions& options, std::unique_ptr<site::Membership>& membership) {
  if (options.store) {
    return options;
  }
  const site::Variables variables = site::own_variables();
  if (options.rank || options.size) {
    JoinOptions completed = options;  // a group or an engine of some of the job's ranks: they meet where all did
    if (membership && !variables("RONDE_STORE")) {
      completed.store = membership->joined().store;
      completed.key = membership->joined().key;
      completed.address = membership->joined().address;
    }
    return completed;
  }
  if (variables("RONDE_SIZE")) {
    RONDE_RETURN_IF_ERROR(site::check_by_hand(variables));
    return options;
  }
  if (!membership) {
    RONDE_ASSIGN_OR_RETURN(const Settings settings, settings_from_environment());
    const bool is_by_mpi = settings.library == Settings::Library::mpi;
    if (is_by_mpi) {
      RONDE_RETURN_IF_ERROR(backend::begin_mpi().with_context("RONDE_BACKEND=mpi"));
    }
    RONDE_ASSIGN_OR_RETURN(
        membership, site::Membership::join(is_by_mpi ? without_pmi_of_slurm(variables) : variables,
                                           options.init_timeout != 0 ? options.init_timeout : settings.init_timeout));
  }
  JoinOptions completed = options;
  if (membership) {
    const site::Joined& joined = membership->joined();
    completed.rank = joined.rank;
    completed.size = joined.size;
    completed.local_rank = joined.layout.local_rank;
    completed.local_size = joined.layout.local_size;
    completed.cross_rank = joined.layout.cross_rank;
    completed.cross_size = joined.layout.cross_size;
    completed.store = joined.store;
    completed.key = joined.key;
    completed.address = joined.address;
  }
  return completed;
}

Result<std::unique_ptr<store::StoreServer>> serve_store(const JoinOptions& options, std::string& served) {
  RONDE_ASSIGN_OR_RETURN(const Topology topology, topology_of(options));
  const std::optional<std::string> address = store_of(options);
  if (topology.rank != 0 || topology.size == 1 || !address || !address->starts_with(kTcp) || *address == served) {
    return std::unique_ptr<store::StoreServer>();
  }
  RONDE_ASSIGN_OR_RETURN(const std::optional<JobKey> key, key_of(options));
  if (!key) {
    return std::unique_ptr<store::StoreServer>();
  }
  RONDE_ASSIGN_OR_RETURN(const store::HostAndPort named, store::parse_host_and_port(address->substr(kTcp.size())));
  RONDE_ASSIGN_OR_RETURN(const store::HostAndPort where, reachable(named));
  Result<UniqueFd> listener = store::listen_tcp(where);
  if (!listener) {
    return listener.status().with_context("rank 0 serves the job's store at RONDE_STORE, " + *address);
  }
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<store::StoreServer> server,
                         store::StoreServer::start(std::move(*listener), *key));
  served = *address;
  return server;
}

Result<std::unique_ptr<Runner>> join_world(const JoinOptions& options, const std::string& meeting, std::uint64_t epoch,
                                           const Clock& clock, std::shared_ptr<GroupIds> ids) {
  RONDE_ASSIGN_OR_RETURN(Settings settings, settings_from_environment());
  RONDE_ASSIGN_OR_RETURN(const std::optional<collectives::Table> given, collectives::Table::from_environment());
  RONDE_RETURN_IF_ERROR(collectives::HostTable::from_environment().status());
  settings.timeout = options.timeout != 0 ? options.timeout : settings.timeout;
  settings.init_timeout = options.init_timeout != 0 ? options.init_timeout : settings.init_timeout;
  RONDE_ASSIGN_OR_RETURN(Topology topology, topology_of(options));
  topology.epoch = epoch;
  const std::string scope = meeting + "/" + std::to_string(epoch);
  RONDE_ASSIGN_OR_RETURN(Met met, meet_others(options, topology, scope, settings));
  const int sharing = met.arena ? met.arena->size() : 1;
  // The first rank's row is everyone's.
  FirstTable first = first_table(given, met.arena && settings.probe && met.arena->rank() == 0, sharing,
                                 cores_of_this_process(), collectives::TableCache::of_this_user);
  if (met.arena) {
    std::unique_ptr<backend::Backend> backend = backend::make_shm_backend(*met.arena, first.table);
    met.connections = connect_on_host(std::move(met.arena), std::move(backend), first.table);
  }
  if (settings.library != Settings::Library::none && topology.size > 1) {
    RONDE_ASSIGN_OR_RETURN(std::shared_ptr<backend::CollectiveLibrary> library,
                           join_library(options, topology, scope, settings));
    RONDE_RETURN_IF_ERROR(go_by_library(met.connections.members, std::move(library)));
  }
  RONDE_ASSIGN_OR_RETURN(
      std::unique_ptr<Runner> runner,
      Runner::start(std::make_unique<Engine>(topology, std::move(met.connections.members), settings, clock),
                    std::move(met.connections.groups), clock, std::move(ids)));
  runner->know_job_clock(met.clock);
  if (!settings.timeline.empty() && meeting == kSharedMeeting) {  // others would write the same files
    // After a new init the file of the one before stays.
    const std::string path = settings.timeline + (epoch > 1 ? ".init" + std::to_string(epoch) : "");
    RONDE_RETURN_IF_ERROR(runner->start_timeline(path, settings.mark_cycles).with_context("RONDE_TIMELINE"));
  }
  if (first.task) {
    runner->start_probing(std::move(*first.task));
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
  return runner.member_groups().make(ranks, meeting, options.timeout != 0 ? options.timeout : settings.timeout);
}

}  // namespace ronde::engine
