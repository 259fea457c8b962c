// Slurm's srun. SLURM_PROCID and SLURM_NTASKS are in a batch script's own environment too, but SLURM_STEP_ID is not;
// and SLURM_NTASKS may be an allocation's, where a step of it has fewer tasks.
#include <charconv>

#include "site/started.h"

namespace ronde::site {

std::string first_of_node_list(const std::string& list) {
  std::string name;
  for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      name += list[at];
      continue;
    }
    const std::size_t end = list.find_first_of(",-]", at + 1);
    const std::size_t close = list.find(']', at);
    if (end == std::string::npos || close == std::string::npos) {
      return "";
    }
    name += list.substr(at + 1, end - at - 1);
    at = close;
  }
  return name;
}

std::optional<int> entry_of_task_list(const std::string& list, int index) {
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    int tasks = 0;
    int times = 1;
    auto [rest, error] = std::from_chars(at, end, tasks);
    if (error != std::errc()) {
      return std::nullopt;
    }
    if (rest < end && *rest == '(') {
      if (end - rest < 3 || rest[1] != 'x') {
        return std::nullopt;
      }
      const auto [after, times_error] = std::from_chars(rest + 2, end, times);
      if (times_error != std::errc() || after == end || *after != ')') {
        return std::nullopt;
      }
      rest = after + 1;
    }
    if (index < times) {
      return tasks;
    }
    index -= times;
    at = rest < end && *rest == ',' ? rest + 1 : end;
  }
  return std::nullopt;
}

Result<std::optional<Started>> started_by_srun(const Variables& variables) {
  const std::optional<std::string> step = variables("SLURM_STEP_ID");
  if (!step) {
    return std::optional<Started>();
  }
  RONDE_ASSIGN_OR_RETURN(const std::optional<int> rank, number_of(variables, "SLURM_PROCID", 0));
  RONDE_ASSIGN_OR_RETURN(const std::optional<int> size, number_of(variables, "SLURM_STEP_NUM_TASKS", 1));
  if (!rank || !size) {
    return std::optional<Started>();
  }
  Started started;
  started.by = Started::By::srun;
  started.name = "Slurm's srun";
  started.rank_variable = "SLURM_PROCID";
  started.size_variable = "SLURM_STEP_NUM_TASKS";
  started.rank = *rank;
  started.size = *size;
  RONDE_ASSIGN_OR_RETURN(const std::optional<int> node, number_of(variables, "SLURM_NODEID", 0));
  if (const auto tasks = variables("SLURM_STEP_TASKS_PER_NODE"); tasks && node) {
    started.local_size = entry_of_task_list(*tasks, *node);
  }
  started.first_host = first_of_node_list(variables("SLURM_STEP_NODELIST").value_or(""));
  started.job = "slurm/" + variables("SLURM_JOB_ID").value_or("") + "/" + *step;
  started.has_pmi = variables("PMI_FD").has_value();
  started.has_pmix = variables("PMIX_NAMESPACE").has_value();
  return std::optional<Started>(std::move(started));
}

}  // namespace ronde::site
