// The guardian: a process that owns all processes of a job, so that none outlives the launcher, however that ends.
//
// It leads a session of its own (no Ctrl-C reaches it), is the subreaper of the job (every orphan, double-forked
// daemons and setsid children included, becomes its child), starts the ranks, and watches the channel to the launcher.
// When that closes it kills and reaps the whole tree. PR_SET_PDEATHSIG alone would not do: it follows the immediate
// parent only and is lost by every fork in between. Should the guardian be killed, the ranks die by their
// PDEATHSIG, and all orphans fall to the launcher, which is a subreaper too: sweep_descendants().
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launch/rank_process.h"

namespace ronde::launch {

struct GuardianPlan {
  std::vector<std::string> command;
  std::vector<RankStart> ranks;  ///< started in this order
  rlimit open_files{};           ///< the ranks' limit
  std::string folder;            ///< the job's private folder, removed when the launcher has gone
  std::vector<int> close;        ///< the launcher's descriptors that the guardian must not keep open
};

struct Guardian {
  pid_t pid = -1;
  UniqueFd channel;  ///< see guardian_channel.h
};

/// Forks the guardian, which starts the ranks. Requires: this process has one thread, and descriptors 0 to 2 are open.
Result<Guardian> start_guardian(const GuardianPlan& plan);

/// Kills and reaps every descendant of this process but `except` and theirs, until none is left or `limit` has passed.
/// Returns how many were left.
int sweep_descendants(const std::vector<pid_t>& except, Nanoseconds limit);

}  // namespace ronde::launch
