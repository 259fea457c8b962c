// `ronde doctor`: what can go wrong on the hosts of a job, before there is one.
#pragma once

#include <string>
#include <vector>

#include "launch/hosts_job.h"

namespace ronde::doctor {

/// Examines this host, and prints. The exit code: 0, or 1 if there is a failure.
int examine_this_host(bool json);

/// Examines the hosts of the job, one process on each, which run `ronde doctor --of-a-job` by what `job` says of hosts;
/// its command and slots are not looked at. The exit code: also 125 if a host cannot be reached.
int examine_hosts(launch::HostsJob job, bool json);

/// One of those processes. Rank 0 prints.
int examine_as_rank(bool json);

}  // namespace ronde::doctor
