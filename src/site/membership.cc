#include "site/membership.h"

#include <poll.h>

#include "base/boot_id.h"
#include "base/host_name.h"
#include "base/log.h"
#include "store/interfaces.h"
#include "store/port_range.h"
#include "store/store_client.h"
#include "store/tcp_address.h"

namespace ronde::site {

namespace {

constexpr std::string_view kTcp = "tcp:";
/// Of one attempt to reach a store that may be an earlier job's.
constexpr Nanoseconds kBetweenAttempts = 20 * kMillisecond;

/// What rank 0 tells: where the ranks meet, and the key.
struct Told {
  std::string store;
  JobKey key;
};

Result<Told> parse_told(const std::string& text) {
  const std::size_t space = text.rfind(' ');
  const Result<JobKey> key = parse_job_key(space == std::string::npos ? text : text.substr(space + 1));
  if (!key || space == std::string::npos) {
    return Status::error(Code::auth_failed, "what rank 0 has told of itself cannot be read");
  }
  return Told{text.substr(0, space), key.value()};
}

std::string tcp_store(const std::string& address, std::uint16_t port) {
  const bool is_six = address.find(':') != std::string::npos;
  return std::string(kTcp) + (is_six ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

struct Met {
  Told told;
  std::unique_ptr<store::Store> store;
};

/// Hears from rank 0 and connects to its store.
Result<Met> find_store(Courier& courier, const std::string& text, Nanoseconds deadline) {
  const RealClock clock;
  while (true) {
    RONDE_ASSIGN_OR_RETURN(const std::string heard, courier.carry(text, time_left(clock, deadline)));
    RONDE_ASSIGN_OR_RETURN(Told told, parse_told(heard));
    Result<std::unique_ptr<store::Store>> store =
        store::connect_store(told.store, told.key, time_left(clock, deadline));
    if (store) {
      return Met{std::move(told), std::move(*store)};
    }
    if (!courier.may_be_stale() || clock.now() >= deadline) {
      return store.status();
    }
    ::poll(nullptr, 0, poll_timeout(std::min(deadline, clock.now() + kBetweenAttempts), clock.now()));
  }
}

/// All ranks tell their hosts.
Result<Layout> exchange_hosts(store::Store& store, const Started& started, const Variables& variables,
                              Nanoseconds limit) {
  store::Value value;
  // Containers of one host may have names of their own: where the launcher says that there is one, they count for
  // nothing.
  const std::string host = started.is_on_one_host() ? "" : host_name() + "/" + boot_id();
  const std::string own = host + "/" + variables("RONDE_HOST_ID").value_or("");
  const auto* begin = reinterpret_cast<const std::byte*>(own.data());
  value.bytes.assign(begin, begin + own.size());
  RONDE_ASSIGN_OR_RETURN(const std::vector<store::Value> values,
                         store.exchange("site/hosts", started.rank, started.size, std::move(value), limit));
  std::vector<std::string> hosts;
  for (const store::Value& each : values) {
    hosts.emplace_back(reinterpret_cast<const char*>(each.bytes.data()), each.bytes.size());
  }
  return layout_of(hosts, started.rank);
}

Status no_way(const Started& started, const std::string& why) {
  const bool has_host = !started.first_host.empty();
  return Status::error(
      Code::invalid_argument,
      started.name + " has started " + std::to_string(started.size) + " ranks" +
          (started.is_on_one_host() ? "" : " on several hosts") + ", and " + why + ": set " +
          (has_host ? "RONDE_KEY (openssl rand -hex 32) or RONDE_KEY_FILE to the same key on all of them, or, where "
                      "everybody on the network may be trusted, RONDE_TRUST_NETWORK=1"
                    : "RONDE_KEY and RONDE_STORE=tcp:HOST:PORT of rank 0's host, with RONDE_RANK and RONDE_SIZE"));
}

}  // namespace

Result<std::string> choose_own_address(const std::string& towards, const Variables& variables) {
  if (const auto address = variables("RONDE_ADDRESS")) {
    return *address;
  }
  const std::vector<store::InterfaceAddress> all = store::interface_addresses();
  if (const auto rule = variables("RONDE_SOCKET_IFNAME")) {
    const std::optional<store::InterfaceAddress> found = store::address_by_rule(all, *rule);
    return found ? Result<std::string>(found->address)
                 : Status::error(Code::invalid_argument, "no network interface of this host fits RONDE_SOCKET_IFNAME=" +
                                                             *rule + "; it has " + store::list_interfaces(all));
  }
  if (!towards.empty()) {
    const Result<std::string> found = store::address_towards({towards, 1});
    const bool means_this_host = towards == "localhost" || store::resolve({towards, 1}, store::HostIs::numbers);
    if (found && (means_this_host || !store::is_loopback(found.value()))) {
      return found;
    }
  }
  return store::address_for_others(host_name(), all);
}

Result<std::unique_ptr<Courier>> courier_for(const Started& started, const std::string& own_address,
                                             const Variables& variables, std::string& name) {
  if (started.has_pmi) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<int> fd, number_of(variables, "PMI_FD", 0));
    name = "PMI";
    return pmi_courier(*fd, started.rank, started.size);
  }
  std::string why = "nothing that they all can trust connects them";
  if (started.has_pmix) {
    Result<std::unique_ptr<Courier>> courier = pmix_courier(started.rank, variables);
    if (courier) {
      name = "PMIx";
      return courier;
    }
    why = courier.status().message();
  }
  if (started.is_on_one_host() && !started.job.empty()) {
    name = "a file of this user's";
    return file_courier(started.job, started.rank,
                        store::folder_candidates(variables("XDG_RUNTIME_DIR").value_or("").c_str(),
                                                 variables("TMPDIR").value_or("").c_str()));
  }
  RONDE_ASSIGN_OR_RETURN(const std::optional<JobKey> key, key_of_user(variables));
  std::unique_ptr<Seal> seal;
  if (key && !started.first_host.empty()) {
    name = "RONDE_KEY";
    seal = key_seal(*key, started.job);
  } else if (started.by == Started::By::srun) {
    Result<std::unique_ptr<Seal>> munge = munge_seal(started.job);
    name = "munge";
    seal = munge ? std::move(*munge) : nullptr;
    why = munge ? why : munge.status().message();
  }
  RONDE_ASSIGN_OR_RETURN(const std::optional<int> trusts, number_of(variables, "RONDE_TRUST_NETWORK", 0));
  if (!seal && trusts == 1 && !started.first_host.empty()) {
    name = "an open network (RONDE_TRUST_NETWORK=1)";
    seal = open_seal(started.job);
    if (started.rank == 0) {
      log(LogLevel::warning, 0,
          "RONDE_TRUST_NETWORK=1: this job's key is given to whoever asks for it at " + own_address +
              " while the ranks meet; who reaches that can take part in the job");
    }
  }
  if (!seal) {
    return no_way(started, why);
  }
  RONDE_ASSIGN_OR_RETURN(std::vector<std::uint16_t> ports, desk_ports(started.job, variables));
  return desk_courier({own_address, started.first_host, std::move(ports)}, started.rank, std::move(seal));
}

/// Gives what to tell.
Result<std::string> Membership::serve(const Started& started, const std::string& own_address) {
  RONDE_ASSIGN_OR_RETURN(const JobKey key, make_job_key());
  UniqueFd listener;
  UniqueFd beside;
  std::string address;
  if (started.is_on_one_host()) {
    RONDE_ASSIGN_OR_RETURN(store::PrivateFolder folder, store::PrivateFolder::create());
    const std::string path = folder.path() + "/store";
    folder_.emplace(std::move(folder));
    RONDE_ASSIGN_OR_RETURN(listener, store::listen_unix(path));
    beside = store::listen_beside(path);
    address = "unix:" + path;
  } else {
    RONDE_ASSIGN_OR_RETURN(listener, store::listen_in_range(own_address));
    RONDE_ASSIGN_OR_RETURN(const std::uint16_t port, store::port_of(listener.get()));
    address = tcp_store(own_address, port);
  }
  RONDE_ASSIGN_OR_RETURN(server_, store::StoreServer::start(std::move(listener), key, {}, std::move(beside)));
  return address + " " + to_hex(key);
}

Result<std::unique_ptr<Membership>> Membership::join(const Variables& variables, Nanoseconds limit) {
  RONDE_ASSIGN_OR_RETURN(const std::optional<Started> started, who_started(variables));
  if (!started) {
    return std::unique_ptr<Membership>();
  }
  const Nanoseconds deadline = later(RealClock().now(), limit);
  std::unique_ptr<Membership> made(new Membership);
  Joined& joined = made->joined_;
  std::string text;
  std::string own_address = "127.0.0.1";
  if (started->rank == 0 && !started->is_on_one_host()) {
    RONDE_ASSIGN_OR_RETURN(own_address, choose_own_address(started->first_host, variables));
  }
  std::string way;
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<Courier> courier, courier_for(*started, own_address, variables, way));
  if (started->rank == 0) {
    RONDE_ASSIGN_OR_RETURN(text, made->serve(*started, own_address));
  }
  Result<Met> met = find_store(*courier, text, deadline);
  if (!met) {
    return met.status().with_context("rank " + std::to_string(started->rank) + " of " + std::to_string(started->size) +
                                     ", started by " + started->name);
  }
  joined.rank = started->rank;
  joined.size = started->size;
  joined.store = met->told.store;
  joined.key = to_hex(met->told.key);
  if (joined.store.starts_with(kTcp) && started->rank != 0) {
    RONDE_ASSIGN_OR_RETURN(const store::HostAndPort zero,
                           store::parse_host_and_port(std::string_view(joined.store).substr(kTcp.size())));
    RONDE_ASSIGN_OR_RETURN(own_address, choose_own_address(zero.host, variables));
  }
  joined.address = own_address;
  RONDE_ASSIGN_OR_RETURN(joined.layout,
                         exchange_hosts(*met->store, *started, variables, time_left(RealClock(), deadline)));
  made->courier_ = courier->lasts() ? std::move(courier) : nullptr;
  log(LogLevel::info, started->rank,
      "rank " + std::to_string(started->rank) + " of " + std::to_string(started->size) + " by " + started->name + " (" +
          started->rank_variable + "); it knows by " + way + " that the ranks meet at " + joined.store +
          (joined.store.starts_with(kTcp) ? ", and is reached at " + own_address : ""));
  return made;
}

}  // namespace ronde::site
