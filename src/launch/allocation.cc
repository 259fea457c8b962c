#include "launch/allocation.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <system_error>
#include <utility>

namespace ronde::launch {

namespace {

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && !text.empty();
  return is_number ? std::optional(value) : std::nullopt;
}

/// Slurm numbers the steps that are none of srun's (a batch script, an interactive shell) from the top.
bool is_task_of_srun(const VariableOf& variable) {
  constexpr std::uint32_t kFirstReserved = 0xfffffff0;
  const std::optional<std::uint32_t> step = number_of(variable("SLURM_STEP_ID"));
  return step && *step < kFirstReserved;
}

Result<std::optional<Allocation>> slurm(const VariableOf& variable) {
  Allocation allocation{"Slurm", variable("SLURM_JOB_ID"), {}};
  RONDE_ASSIGN_OR_RETURN(const std::vector<std::string> names, expand_host_names(variable("SLURM_JOB_NODELIST")));
  const std::string tasks = variable("SLURM_TASKS_PER_NODE");
  std::vector<int> counts(names.size(), 1);
  if (!tasks.empty()) {
    RONDE_ASSIGN_OR_RETURN(counts, expand_counts(tasks));
  }
  if (counts.size() != names.size()) {
    return Status::error(Code::invalid_argument, "SLURM_TASKS_PER_NODE='" + tasks + "' speaks of " +
                                                     std::to_string(counts.size()) + " hosts, SLURM_JOB_NODELIST of " +
                                                     std::to_string(names.size()) + "; say where to run with -H");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    allocation.hosts.push_back({names[i], counts[i]});
  }
  return std::optional(std::move(allocation));
}

Result<std::optional<Allocation>> by_file(std::string system, std::string number, const std::string& path) {
  RONDE_ASSIGN_OR_RETURN(std::vector<HostSlots> hosts, read_host_file(path));
  return std::optional(Allocation{std::move(system), std::move(number), std::move(hosts)});
}

/// "node1 4 node2 4".
Result<std::optional<Allocation>> lsf_pairs(std::string number, const std::string& pairs) {
  std::string list;
  std::istringstream words(pairs);
  for (std::string name, slots; words >> name >> slots;) {
    list += (list.empty() ? "" : ",") + name + ":" + slots;
  }
  RONDE_ASSIGN_OR_RETURN(std::vector<HostSlots> hosts, parse_hosts(list));
  return std::optional(Allocation{"LSF", std::move(number), std::move(hosts)});
}

}  // namespace

Result<std::vector<int>> expand_counts(std::string_view text) {
  std::vector<int> counts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    std::string_view item = text.substr(begin, comma - begin);
    std::optional<std::uint32_t> times = 1;
    if (const std::size_t open = item.find("(x"); open != std::string_view::npos && item.ends_with(')')) {
      times = number_of(item.substr(open + 2, item.size() - open - 3));
      item = item.substr(0, open);
    }
    const std::optional<std::uint32_t> count = number_of(item);
    if (!count || *count < 1 || *count > 1000000 || !times || *times < 1 || *times > static_cast<unsigned>(kMaxHosts)) {
      return Status::error(Code::invalid_argument,
                           "'" + std::string(text) + "' is no count of tasks; expected, for example, 2(x3),1");
    }
    counts.insert(counts.end(), *times, static_cast<int>(*count));
    begin = comma + 1;
  }
  return counts;
}

Result<std::optional<Allocation>> allocation_of(const VariableOf& variable) {
  if (!variable("RONDE_RANK").empty()) {
    return std::optional<Allocation>();
  }
  if (!variable("SLURM_JOB_NODELIST").empty()) {
    return is_task_of_srun(variable) ? std::optional<Allocation>() : slurm(variable);
  }
  if (const std::string path = variable("PBS_NODEFILE"); !path.empty()) {
    return by_file("PBS", variable("PBS_JOBID"), path);
  }
  if (const std::string path = variable("LSB_DJOB_HOSTFILE"); !path.empty()) {
    return by_file("LSF", variable("LSB_JOBID"), path);
  }
  if (const std::string pairs = variable("LSB_MCPU_HOSTS"); !pairs.empty()) {
    return lsf_pairs(variable("LSB_JOBID"), pairs);
  }
  return std::optional<Allocation>();
}

}  // namespace ronde::launch
