#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace ronde {

namespace {

/// This process's folder in a cgroup hierarchy, from /proc/self/cgroup: lines "id:controllers:path".
std::string cgroup_path(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    std::string name;
    bool found = controller.empty() && second == first + 1;
    while (std::getline(controllers, name, ',')) {
      found |= name == controller;
    }
    if (found) {
      return line.substr(second + 1);
    }
  }
  return {};
}

/// quota / period of one folder; 0 if it sets no limit.
double quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0;
  double period = 0;
  return file >> quota >> period && period > 0 ? quota / period : 0;
}

double quota_v1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  return quota_file >> quota && period_file >> period && quota > 0 && period > 0 ? quota / period : 0;
}

/// The smallest limit on the way from the process's folder to the root.
double smallest_quota(const std::string& root, std::string path, double (*read)(const std::string&)) {
  double smallest = 0;
  while (true) {
    const double here = read(root + path);
    if (here > 0 && (smallest == 0 || here < smallest)) {
      smallest = here;
    }
    if (path.empty()) {
      return smallest;
    }
    path.erase(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

}  // namespace

double available_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  double cores = 1;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) {
    cores = std::max(1, CPU_COUNT(&mask));
  }
  for (const double quota : {smallest_quota("/sys/fs/cgroup", cgroup_path(""), quota_v2),
                             smallest_quota("/sys/fs/cgroup/cpu", cgroup_path("cpu"), quota_v1)}) {
    if (quota > 0) {
      cores = std::min(cores, quota);
    }
  }
  return cores;
}

}  // namespace ronde
