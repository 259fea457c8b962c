// The control groups that limit this process: its own and all above it, of version 1 and 2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ronde {

struct CgroupFolder {
  int version = 2;
  std::string path;
  bool operator==(const CgroupFolder&) const = default;
};

/// The folders whose limits hold for a controller ("cpu", "memory"): the process's own and each one above it up to the
/// mount point. `root` stands in front of every path that is read ("" for the machine, a folder for tests), and is no
/// part of the paths returned.
std::vector<CgroupFolder> cgroup_folders(std::string_view controller, const std::string& root);

/// The pure part, from the contents of /proc/self/cgroup and /proc/self/mountinfo.
std::vector<CgroupFolder> cgroup_folders(std::string_view controller, std::string_view self_cgroup,
                                         std::string_view mountinfo);

/// The whole of a small file, empty if it cannot be read.
std::string read_file(const std::string& path);

}  // namespace ronde
