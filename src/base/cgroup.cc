#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace ronde {

namespace {

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
std::optional<Mount> find_mount(std::string_view mountinfo, int version, std::string_view controller) {
  for (const std::string& line : split(mountinfo, '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) {
      continue;
    }
    if (version == 2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && has_word(dash[3], controller)) {
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

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<CgroupFolder> cgroup_folders(std::string_view controller, std::string_view self_cgroup,
                                         std::string_view mountinfo) {
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
      add_folders(folders, 2, group, find_mount(mountinfo, 2, controller));
    } else if (has_word(controllers, controller)) {
      add_folders(folders, 1, group, find_mount(mountinfo, 1, controller));
    }
  }
  return folders;
}

std::vector<CgroupFolder> cgroup_folders(std::string_view controller, const std::string& root) {
  return cgroup_folders(controller, read_file(root + "/proc/self/cgroup"), read_file(root + "/proc/self/mountinfo"));
}

}  // namespace ronde
