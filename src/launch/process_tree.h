// Which processes descend from a process, as /proc shows it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>
#include <vector>

namespace ronde::launch {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  char state = '?';  ///< as in ps; 'Z' is a zombie
};

/// Of /proc/<pid>/stat; none if it is not one. The name in it may hold anything, brackets and newlines included.
std::optional<Process> parse_stat(std::string_view text);
/// All that can be seen. Those that end meanwhile may be missing.
std::vector<Process> list_processes();
/// Those of `all` that descend from `root`, without it and without `except` and what descends from them.
std::vector<Process> descendants(const std::vector<Process>& all, pid_t root, const std::vector<pid_t>& except = {});

}  // namespace ronde::launch
