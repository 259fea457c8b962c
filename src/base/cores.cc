#include "base/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>

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

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

bool has_word(std::string_view list, std::string_view word) {
  const std::vector<std::string> words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A control group file system of mountinfo: the group that is its root, and where it is mounted.
struct Mount {
  std::string group;
  std::string point;
};

/// "36 25 0:32 /group /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu": fields before the dash vary in number.
std::optional<Mount> find_mount(std::string_view mountinfo, int version) {
  for (const std::string& line : split(mountinfo, '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) {
      continue;
    }
    if (version == 2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && has_word(dash[3], "cpu")) {
      return Mount{words[3], words[4]};
    }
  }
  return std::nullopt;
}

void add_folders(std::vector<CgroupFolder>& folders, int version, std::string group,
                 const std::optional<Mount>& mount) {
  if (!mount) {
    return;
  }
  // In a container the group is often named as the host sees it, and the mount shows only the part below it.
  if (mount->group != "/" && (group == mount->group || group.starts_with(mount->group + "/"))) {
    group.erase(0, mount->group.size());
  } else if (group.find("/..") != std::string::npos) {
    group.clear();
  }
  while (!group.empty() && group != "/") {
    folders.push_back({version, mount->point + group});
    group.erase(group.rfind('/'));
  }
  folders.push_back({version, mount->point});
}

}  // namespace

int affinity_cores() {
  // A machine may have more processors than a cpu_set_t: the kernel then says EINVAL and wants a larger one.
  for (int processors = CPU_SETSIZE; processors <= 1 << 20; processors *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(processors));
    if (set == nullptr) {
      break;
    }
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(processors));
    const int result = ::sched_getaffinity(0, bytes, set);
    const int failure = errno;
    const int cores = result == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (result == 0) {
      return std::max(cores, 1);
    }
    if (failure != EINVAL) {
      break;
    }
  }
  return static_cast<int>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
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

std::vector<CgroupFolder> cgroup_folders(std::string_view self_cgroup, std::string_view mountinfo) {
  std::vector<CgroupFolder> folders;
  for (const std::string& line : split(self_cgroup, '\n')) {
    // "4:cpu,cpuacct:/group" of version 1, "0::/group" of version 2.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      add_folders(folders, 2, group, find_mount(mountinfo, 2));
    } else if (has_word(controllers, "cpu")) {
      add_folders(folders, 1, group, find_mount(mountinfo, 1));
    }
  }
  return folders;
}

std::optional<double> cgroup_quota(const std::string& root) {
  std::optional<double> smallest;
  for (const CgroupFolder& folder :
       cgroup_folders(read_file(root + "/proc/self/cgroup"), read_file(root + "/proc/self/mountinfo"))) {
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
