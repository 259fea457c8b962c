// The command line by which an MPI's own launcher starts the ranks of a job, in that launcher's syntax. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launch/binding.h"
#include "launch/host_list.h"

namespace ronde::launch {

/// Whose options a launcher understands.
enum class MpiKind { open_mpi, mpich, intel, srun };

struct MpiLauncher {
  std::string program = {};  ///< a path, or a name that PATH leads to
  MpiKind kind = MpiKind::open_mpi;
  int major = 0;             ///< of its version; of Open MPI only, 0: not known
  std::string version = {};  ///< for people
};

struct MpiJob {
  std::vector<std::string> command = {};  ///< program and arguments, the same for every rank
  int ranks = 1;
  std::vector<HostSlots> hosts = {};  ///< so many ranks on each; none: all on this one
  Binding binding = Binding::none;
  bool prefix = true;                       ///< lines of ranks say whose they are, as the launcher says it
  bool is_root = false;                     ///< whose jobs Open MPI starts only if it is told to
  std::string folder = {};                  ///< to work in; empty: this one
  std::string ssh = {};                     ///< how to log in, with words; empty: as the launcher does
  std::string output_folder = {};           ///< also gets what ranks print, laid out as the launcher does; empty: none
  std::vector<std::string> variables = {};  ///< names of those that ranks of other hosts get from here
  std::vector<std::string> options = {};    ///< of the launcher's, behind all others, so that they win
};

/// By what a program says when it is asked for its version; `program` is srun by its name. NOT_IMPLEMENTED for another.
Result<MpiLauncher> mpi_launcher_of(const std::string& program, const std::string& said);

/// INVALID_ARGUMENT for what this launcher has no option for.
Result<std::vector<std::string>> mpi_line(const MpiLauncher& launcher, const MpiJob& job);

/// Words as a shell takes them: apart by spaces, with '...', "..." and \x. INVALID_ARGUMENT if a quote is not closed.
Result<std::vector<std::string>> split_words(std::string_view text);

/// A command line that a person can paste: each word as it is if a shell leaves it alone, else quoted.
std::string joined(const std::vector<std::string>& words);

}  // namespace ronde::launch
