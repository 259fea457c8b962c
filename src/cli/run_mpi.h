// `ronde run --backend mpi`: the ranks are started by an MPI's own launcher, since ranks that none has started are each
// alone for MPI.
#pragma once

#include <string>
#include <vector>

#include "cli/host_options.h"
#include "launch/ending.h"
#include "launch/local_job.h"

namespace CLI {
class App;
}

namespace ronde::cli {

struct MpiOptions {
  std::string backend = "own";
  std::string launcher;
  std::vector<std::string> more;  ///< texts of --mpi-args
};

/// The reference is kept until the command line has been read.
void add_mpi_options(CLI::App& command, MpiOptions& options);

/// The job that was asked for, by MPI's launcher. `hosts`: of the options. Throws CLI::ValidationError for what that
/// cannot do, or is not there.
launch::JobEnd run_by_mpi(const MpiOptions& options, const HostOptions& where, std::vector<launch::HostSlots> hosts,
                          const launch::LocalJob& job);

}  // namespace ronde::cli
