// A job whose ranks an MPI's own launcher starts. This process starts that launcher under a guardian, as if it were the
// only rank of a job here, so that nothing of it is left however this process ends.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "launch/ending.h"
#include "launch/mpi_line.h"

namespace ronde::launch {

/// `named`: a path or a name; empty: srun where `prefers_srun`, else the first of PATH that is known. The environment
/// has that PATH. INVALID_ARGUMENT or NOT_IMPLEMENTED with what was tried. Requires: one thread.
Result<MpiLauncher> find_mpi_launcher(const std::string& named, bool prefers_srun,
                                      const std::vector<std::string>& environment);

/// "--mpi=pmix", or the like: by which srun is to connect ranks where neither the site nor `options` says so; none:
/// they do, or nothing is known.
std::vector<std::string> srun_connection(const std::vector<std::string>& options,
                                         const std::vector<std::string>& environment);

/// Names of the variables that ranks of other hosts get from this process: portable_environment()'s, and of `settings`.
std::vector<std::string> carried_names(const std::vector<std::string>& settings);

/// Runs the line to its end. `settings`: NAME=value, on top of this process's environment. The exit code is the
/// launcher's. Requires: as run_local_job().
JobEnd run_mpi_job(const std::vector<std::string>& line, const std::vector<std::string>& settings, Nanoseconds grace);

}  // namespace ronde::launch
