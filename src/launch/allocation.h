// The hosts that a batch system has given the job which this process is a part of, as its variables say: Slurm
// (SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE), PBS (PBS_NODEFILE), LSF (LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launch/host_list.h"

namespace ronde::launch {

struct Allocation {
  std::string system;            ///< "Slurm", "PBS", "LSF"
  std::string number;            ///< of the job, as its system writes it
  std::vector<HostSlots> hosts;  ///< in the system's order
};

/// Looks a variable up; empty: not set.
using VariableOf = std::function<std::string(const std::string&)>;

/// None outside of a batch job, in a step that srun has started (there each task is a rank already), and in a rank of
/// Ronde's. INVALID_ARGUMENT where the variables contradict themselves or a file cannot be read.
Result<std::optional<Allocation>> allocation_of(const VariableOf& variable);

/// "2(x3),1": 2 2 2 1, as Slurm counts tasks. INVALID_ARGUMENT if it is something else.
Result<std::vector<int>> expand_counts(std::string_view text);

}  // namespace ronde::launch
