#include "launch/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/unique_fd.h"

namespace ronde::launch {

std::optional<Process> parse_stat(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  Process process;
  if (std::from_chars(text.data(), text.data() + open, process.pid).ec != std::errc{}) {
    return std::nullopt;
  }
  // ") S ppid pgrp ..."
  const std::string_view rest = text.substr(close + 1);
  if (rest.size() < 4 || rest[0] != ' ' || rest[2] != ' ') {
    return std::nullopt;
  }
  process.state = rest[1];
  const char* const end = rest.data() + rest.size();
  const auto parent = std::from_chars(rest.data() + 3, end, process.parent);
  if (parent.ec != std::errc{} || parent.ptr == end) {
    return std::nullopt;
  }
  if (std::from_chars(parent.ptr + 1, end, process.group).ec != std::errc{}) {
    return std::nullopt;
  }
  return process;
}

std::vector<Process> list_processes() {
  std::vector<Process> processes;
  DIR* const folder = ::opendir("/proc");
  if (folder == nullptr) {
    return processes;
  }
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') {
      continue;
    }
    std::array<char, 32> path;
    std::snprintf(path.data(), path.size(), "%.20s/stat", entry->d_name);
    const UniqueFd file(::openat(::dirfd(folder), path.data(), O_RDONLY | O_CLOEXEC));
    std::array<char, 1024> text;
    const ssize_t size = file.is_open() ? ::read(file.get(), text.data(), text.size()) : -1;
    if (size > 0) {
      if (const auto process = parse_stat({text.data(), static_cast<std::size_t>(size)})) {
        processes.push_back(*process);
      }
    }
  }
  ::closedir(folder);
  return processes;
}

std::vector<Process> descendants(const std::vector<Process>& all, pid_t root, const std::vector<pid_t>& except) {
  std::multimap<pid_t, Process> children;
  for (const Process& process : all) {
    children.emplace(process.parent, process);
  }
  std::vector<Process> found;
  std::vector<pid_t> open = {root};
  while (!open.empty()) {
    const auto [first, last] = children.equal_range(open.back());
    open.pop_back();
    for (auto it = first; it != last; ++it) {
      if (it->second.pid != root && std::find(except.begin(), except.end(), it->second.pid) == except.end()) {
        found.push_back(it->second);
        open.push_back(it->second.pid);
      }
    }
    // Each process is visited once, also where a listing taken over some time would make a circle.
    children.erase(first, last);
  }
  return found;
}

}  // namespace ronde::launch
