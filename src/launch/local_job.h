// A job on this host: starts the ranks, serves their store, prints what they print, and ends with them.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/binding.h"
#include "launch/ending.h"

namespace ronde::launch {

struct LocalJob {
  std::vector<std::string> command;  ///< program and arguments, the same for every rank
  int ranks = 1;
  Binding binding = Binding::none;
  Nanoseconds grace = 5 * kSecond;  ///< see StopPolicy
  std::string output_folder;        ///< see RankOutputSettings; empty: none
  bool prefix = true;
  std::vector<std::string> settings;  ///< NAME=value, on top of everything else in the ranks' environment
  bool starts_ranks = false;  ///< the command is a launcher of ranks, and is itself none: it gets no place in a job
};

inline constexpr int kMaxLocalRanks = 256;

/// Runs the job to its end. Requires: 1 <= ranks <= kMaxLocalRanks, a command, and that this process has one thread
/// and no child processes that must survive (a child that it has already is left alone). Prints the ranks' output, and
/// a line when it begins to stop. On return no process, socket or folder of the job is left.
JobEnd run_local_job(const LocalJob& job);

}  // namespace ronde::launch
