// A job on several hosts: an agent on each, reached by ssh or srun, starts the ranks there; this process serves the
// store in which they meet, prints what they print, and ends with them.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "launch/agent_messages.h"
#include "launch/binding.h"
#include "launch/ending.h"
#include "launch/host_list.h"
#include "launch/login.h"

namespace ronde::launch {

/// How ranks are numbered over the hosts.
enum class Mapping {
  slot,  ///< host by host: 0 1 on the first, 2 3 on the second
  node,  ///< in turn: 0 2 on the first, 1 3 on the second
};

/// By its name; INVALID_ARGUMENT with what was expected.
Result<Mapping> parse_mapping(const std::string& name);

struct HostsJob {
  std::vector<std::string> command;  ///< program and arguments, the same for every rank
  std::vector<HostSlots> hosts;      ///< so many ranks on each, in this order
  Mapping mapping = Mapping::slot;
  Binding binding = Binding::none;
  Nanoseconds grace = 5 * kSecond;  ///< see StopPolicy
  std::string output_folder;        ///< see RankOutputSettings; empty: none
  bool prefix = true;
  std::vector<std::string> settings;  ///< NAME=value, on top of everything else in the ranks' environment
  Login login;
  Nanoseconds start_timeout = 60 * kSecond;  ///< for all hosts to be reached and to be ready
  std::string folder;                        ///< to work in, on every host
  std::string program;                       ///< of Ronde, on every host: an absolute path
  std::string python_folder;                 ///< comes first in PATH; empty: none
  std::string interfaces;                    ///< see choose_addresses(); empty: as ssh goes
  std::string carried;                       ///< a folder for CarriedFolder; empty: none
  bool explain = false;                      ///< says which addresses were chosen, and why
};

/// Runs the job to its end, as run_local_job() does. Requires: fill_hosts()'s hosts, and what run_local_job() does.
/// No process of the job is left on any host that can be reached.
JobEnd run_hosts_job(const HostsJob& job);

/// The places of each host's ranks, ascending; the cross rank counts the hosts that have a rank of the same local rank.
std::vector<std::vector<PlannedRank>> place_ranks(const std::vector<HostSlots>& hosts, Mapping mapping);

/// Of the launcher's environment what its job's ranks on other hosts get: all but what belongs to its host, login or
/// batch step.
std::vector<std::string> portable_environment(const std::vector<std::string>& environment);

}  // namespace ronde::launch
