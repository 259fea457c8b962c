// Starts one rank's program.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace ronde::launch {

struct RankStart {
  int rank = 0;
  std::vector<std::string> environment;
  std::vector<int> cores = {};  ///< it is bound to these; empty: to none
  UniqueFd input;               ///< becomes descriptor 0; not open: what this process has
  UniqueFd output;              ///< descriptor 1
  UniqueFd error;               ///< descriptor 2
};

struct StartedRank {
  pid_t pid = -1;
  bool of_exec = false;  ///< if not started: whether the program, not the process, was the obstacle
  int error_number = 0;  ///< 0: the program runs
};

/// Forks and executes `command` (searched in the PATH of the rank's environment), and returns when the program runs or
/// has failed to. The child leads a process group of its own, has default signal dispositions and an empty mask, has
/// none of this program's close-on-exec descriptors, and is killed when this *thread* ends: call from a main thread.
StartedRank start_rank(const std::vector<std::string>& command, const RankStart& start, const rlimit& open_files);

}  // namespace ronde::launch
