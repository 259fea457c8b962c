#include "base/cores.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/cgroup.h"
#include "base/core_set.h"

namespace ronde {

namespace {

std::optional<long long> parse_integer(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

int affinity_cores() {
  const auto allowed = static_cast<int>(CoreSet::of_this_thread().cores().size());
  return allowed > 0 ? allowed : static_cast<int>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
}

double cores_of_this_process() {
  static const double cores = std::min<double>(affinity_cores(), cgroup_quota().value_or(affinity_cores()));
  return cores;
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) {
    return std::nullopt;
  }
  return parse_cfs(text.substr(0, space), text.substr(space + 1));
}

std::optional<double> parse_cfs(std::string_view quota_text, std::string_view period_text) {
  const std::optional<long long> quota = parse_integer(quota_text);
  const std::optional<long long> period = parse_integer(period_text);
  if (!quota || !period || *quota <= 0 || *period <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> cgroup_quota(const std::string& root) {
  std::optional<double> smallest;
  for (const CgroupFolder& folder : cgroup_folders("cpu", root)) {
    const std::string path = root + folder.path;
    const std::optional<double> quota =
        folder.version == 2 ? parse_cpu_max(read_file(path + "/cpu.max"))
                            : parse_cfs(read_file(path + "/cpu.cfs_quota_us"), read_file(path + "/cpu.cfs_period_us"));
    if (quota && (!smallest || *quota < *smallest)) {
      smallest = quota;
    }
  }
  return smallest;
}

int threads_per_rank(int cores, std::optional<double> quota, int ranks) {
  const double usable = quota ? std::min(static_cast<double>(cores), *quota) : static_cast<double>(cores);
  return std::max(static_cast<int>(usable / ranks), 1);
}

}  // namespace ronde
