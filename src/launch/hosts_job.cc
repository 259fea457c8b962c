#include "launch/hosts_job.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "base/host_name.h"
#include "base/job_key.h"
#include "launch/addresses.h"
#include "launch/agent_host.h"
#include "launch/launcher_process.h"
#include "launch/rank_output.h"
#include "launch/signal_watch.h"
#include "launch/supervisor.h"
#include "store/interfaces.h"
#include "store/private_folder.h"
#include "store/store_server.h"

namespace ronde::launch {

namespace {

/// So many connections are made at a time: a login node's sshd, or a directory service, refuses more at once.
constexpr std::size_t kConnectionsAtOnce = 32;

int total_slots(const std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const HostSlots& host : hosts) {
    slots += host.slots;
  }
  return slots;
}

/// "0 to 3" of neighbours, else "0, 2, 4".
std::string text_of(const std::vector<PlannedRank>& ranks) {
  const int first = ranks.front().rank;
  const int last = ranks.back().rank;
  if (last - first + 1 == static_cast<int>(ranks.size())) {
    return std::to_string(first) + " to " + std::to_string(last);
  }
  std::string text;
  for (const PlannedRank& each : ranks) {
    text += (text.empty() ? "" : ", ") + std::to_string(each.rank);
  }
  return text;
}

/// From nothing to agents that are ready on every host.
class HostsStart {
 public:
  HostsStart(const HostsJob& job, SignalWatch& signals, std::string store_path)
      : job_(job), signals_(signals), store_path_(std::move(store_path)) {}

  /// Every host ready; or the sentence why not, and exit_code().
  Status run(const JobKey& key) {
    const Nanoseconds begun = clock_.now();
    deadline_ = later(begun, job_.start_timeout);
    RONDE_RETURN_IF_ERROR(until(AgentHost::State::greeted, "answered"));
    RONDE_RETURN_IF_ERROR(plan(key));
    return until(AgentHost::State::ready, "got ready");
  }

  int exit_code() const { return exit_code_; }
  std::vector<std::unique_ptr<AgentHost>> take_hosts() { return std::move(hosts_); }

 private:
  Status connect_next() {
    const HostSlots& host = job_.hosts[hosts_.size()];
    const std::vector<std::string> words = is_this_host(host.name, host_name())
                                               ? std::vector<std::string>{job_.program, "agent"}
                                               : login_command(job_.login, host.name, job_.program);
    RONDE_ASSIGN_OR_RETURN(
        std::unique_ptr<AgentHost> agent,
        AgentHost::connect(host.name, words, trial_of(job_.login, host.name), store_path_, job_.program));
    hosts_.push_back(std::move(agent));
    return {};
  }

  std::size_t connecting() const {
    return static_cast<std::size_t>(std::count_if(
        hosts_.begin(), hosts_.end(), [](const auto& host) { return host->state() == AgentHost::State::connecting; }));
  }

  /// Every host has come to `state`, or the first failure. The deadline ends it.
  Status until(AgentHost::State state, const std::string& what) {
    while (true) {
      while (hosts_.size() < job_.hosts.size() && connecting() < kConnectionsAtOnce) {
        RONDE_RETURN_IF_ERROR(connect_next());
      }
      const auto lacks = [&](const auto& host) { return host->state() < state; };
      const auto slow = std::find_if(hosts_.begin(), hosts_.end(), lacks);
      if (slow == hosts_.end() && hosts_.size() == job_.hosts.size()) {
        return {};
      }
      if (clock_.now() >= deadline_ && slow != hosts_.end()) {
        (*slow)->fail_for_silence(what, job_.start_timeout);
        return Status::error(Code::timed_out, (*slow)->failure());
      }
      RONDE_RETURN_IF_ERROR(wait());
    }
  }

  Status wait() {
    std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
    Nanoseconds wake = deadline_;
    for (const auto& host : hosts_) {
      host->watch(entries);
      wake = std::min(wake, host->next_deadline());
    }
    ::poll(entries.data(), entries.size(), poll_timeout(wake, clock_.now()));
    while (const int signal = signals_.next()) {
      if (signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGTSTP) {
        exit_code_ = 128 + signal;
        return Status::error(Code::interrupted, "stopped by signal " + std::to_string(signal) + " (" +
                                                    signal_name(signal) + ") while the hosts were being reached");
      }
    }
    for (const auto& host : hosts_) {
      host->hear(entries, clock_.now());
      if (host->state() == AgentHost::State::failed) {
        exit_code_ = host->failure_code();
        return Status::error(Code::system_error, host->failure());
      }
    }
    return {};
  }

  Status plan(const JobKey& key) {
    std::vector<AgentHello> hellos;
    std::vector<std::string> names;
    for (const auto& host : hosts_) {
      hellos.push_back(host->hello());
      hellos.back().named = store::address_for_others(host->name(), hellos.back().addresses);
      names.push_back(host->name());
    }
    RONDE_ASSIGN_OR_RETURN(const std::vector<ChosenAddress> addresses,
                           choose_addresses(names, hellos, job_.interfaces));
    const std::vector<std::vector<PlannedRank>> places = place_ranks(job_.hosts, job_.mapping);
    AgentPlan plan;
    plan.command = job_.command;
    plan.folder = job_.folder;
    plan.path_first = job_.python_folder;
    plan.environment = portable_environment(own_environment());
    plan.settings = job_.settings;
    plan.key = to_hex(key);
    plan.size = total_slots(job_.hosts);
    plan.binding = job_.binding;
    plan.carries = !job_.carried.empty();
    plan.master_address = addresses[0].address;
    plan.master_port = hellos[0].free_port;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      plan.ranks = places[host];
      plan.address = addresses[host].address;
      if (job_.explain) {
        std::fprintf(stderr, "ronde: ranks %s on %s, at %s: %s\n", text_of(plan.ranks).c_str(), names[host].c_str(),
                     plan.address.c_str(), addresses[host].reason.c_str());
      }
      RONDE_RETURN_IF_ERROR(hosts_[host]->plan(plan, job_.carried));
    }
    return {};
  }

  const HostsJob& job_;
  SignalWatch& signals_;
  std::string store_path_;
  RealClock clock_;
  Nanoseconds deadline_ = kNever;
  int exit_code_ = kLauncherExit;
  std::vector<std::unique_ptr<AgentHost>> hosts_;
};

Result<JobEnd> run_on_hosts(const HostsJob& job) {
  open_standard_descriptors();
  const ManyOpenFiles open_files;
  SignalWatch signals({SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2});
  ::signal(SIGCHLD, SIG_DFL);
  RONDE_ASSIGN_OR_RETURN(const JobKey key, make_job_key());
  RONDE_ASSIGN_OR_RETURN(const store::PrivateFolder folder, store::PrivateFolder::create());
  const std::string socket_path = folder.path() + "/store";
  RONDE_ASSIGN_OR_RETURN(UniqueFd listener, store::listen_unix(socket_path));
  RONDE_ASSIGN_OR_RETURN(const std::unique_ptr<store::StoreServer> server,
                         store::StoreServer::start(std::move(listener), key));
  HostsStart start(job, signals, socket_path);
  if (const Status ready = start.run(key); !ready) {
    return JobEnd{start.exit_code(), ready.message()};
  }
  const int ranks = total_slots(job.hosts);
  RONDE_ASSIGN_OR_RETURN(const std::unique_ptr<RankOutput> output,
                         RankOutput::open_fed(ranks, {.prefix = job.prefix, .folder = job.output_folder}));
  std::vector<std::unique_ptr<RankHost>> hosts;
  for (std::unique_ptr<AgentHost>& host : start.take_hosts()) {
    host->begin(*output);
    hosts.push_back(std::move(host));
  }
  return Supervisor({.program = job.command[0], .ranks = ranks, .grace = job.grace}, std::move(hosts), *output, signals)
      .run();
}

}  // namespace

JobEnd run_hosts_job(const HostsJob& job) {
  Result<JobEnd> end = run_on_hosts(job);
  return end ? std::move(end).value() : JobEnd{kLauncherExit, "cannot start the job: " + end.status().message()};
}

Result<Mapping> parse_mapping(const std::string& name) {
  if (name == "slot" || name == "node") {
    return name == "slot" ? Mapping::slot : Mapping::node;
  }
  return Status::error(Code::invalid_argument, "'" + name + "' is no way to number ranks; expected slot or node");
}

std::vector<std::vector<PlannedRank>> place_ranks(const std::vector<HostSlots>& hosts, Mapping mapping) {
  std::map<int, int> hosts_with;  // a local rank
  std::vector<std::vector<PlannedRank>> places(hosts.size());
  int rank = 0;
  const auto place_on = [&](std::size_t host) {
    const auto local = static_cast<int>(places[host].size());
    places[host].push_back({rank++, local, hosts_with[local]++, 1});
  };
  const int ranks = total_slots(hosts);
  for (std::size_t host = 0; rank < ranks; host = (host + 1) % hosts.size()) {
    const auto room = static_cast<std::size_t>(hosts[host].slots);
    while (places[host].size() < room) {
      place_on(host);
      if (mapping == Mapping::node) {
        break;
      }
    }
  }
  for (std::vector<PlannedRank>& of_host : places) {
    for (PlannedRank& each : of_host) {
      each.cross_size = hosts_with[each.local_rank];
    }
  }
  return places;
}

std::vector<std::string> portable_environment(const std::vector<std::string>& environment) {
  constexpr std::string_view kNames[] = {"HOME",
                                         "USER",
                                         "LOGNAME",
                                         "SHELL",
                                         "HOSTNAME",
                                         "HOST",
                                         "PWD",
                                         "OLDPWD",
                                         "SHLVL",
                                         "_",
                                         "TMPDIR",
                                         "DISPLAY",
                                         "XAUTHORITY",
                                         "MAIL",
                                         "SLURM_PROCID",
                                         "SLURM_LOCALID",
                                         "STY",
                                         "TMUX",
                                         "WINDOWID",
                                         "TTY",
                                         "KRB5CCNAME",
                                         "SLURM_NODEID",
                                         "SLURMD_NODENAME",
                                         "INVOCATION_ID"};
  constexpr std::string_view kFamilies[] = {"SSH_", "XDG_", "DBUS_", "BASH_FUNC_", "PMI_", "PMIX_", "OMPI_"};
  std::vector<std::string> kept;
  for (const std::string& each : environment) {
    const std::string_view name = std::string_view(each).substr(0, each.find('='));
    const auto begins = [&](std::string_view family) { return name.starts_with(family); };
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames) &&
        std::none_of(std::begin(kFamilies), std::end(kFamilies), begins)) {
      kept.push_back(each);
    }
  }
  return kept;
}

}  // namespace ronde::launch
