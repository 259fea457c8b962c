#include "engine/process/other_launchers.h"

#include <cstdint>
#include <limits>

#include "base/environment.h"

namespace ronde::engine {

namespace {

struct OtherLauncher {
  const char* size;  ///< the variable that says how many processes it has started
  const char* name;
};

/// Not SLURM_NTASKS, which is set in an allocation's own shell as well.
constexpr OtherLauncher kOthers[] = {
    {"HOROVOD_SIZE", "another horovodrun"},
    {"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
    {"PMI_SIZE", "mpirun"},
    {"MV2_COMM_WORLD_SIZE", "MVAPICH's mpirun"},
    {"SLURM_STEP_NUM_TASKS", "Slurm's srun"},
    {"WORLD_SIZE", "torchrun"},
};

}  // namespace

std::optional<std::string> why_not_alone() {
  if (environment_text("RONDE_SIZE")) {
    return std::nullopt;
  }
  for (const OtherLauncher& other : kOthers) {
    const Result<std::optional<std::int64_t>> size =
        environment_integer(other.size, 0, std::numeric_limits<std::int64_t>::max());
    if (size && size.value().value_or(1) > 1) {
      const std::string count = std::to_string(*size.value());
      return std::string(other.size) + " is " + count + ": " + other.name + " seems to have started " + count +
             " processes, but what it sets does not say who each is and where they meet, so each of them is a job of " +
             "its own, of one rank. Start them with `ronde run -n " + count + " -- ...` (or horovodrun) instead";
    }
  }
  return std::nullopt;
}

}  // namespace ronde::engine
