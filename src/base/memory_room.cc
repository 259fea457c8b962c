#include "base/memory_room.h"

#include <algorithm>
#include <charconv>

#include "base/cgroup.h"

namespace ronde {

namespace {

/// Version 1 writes "no limit" as a number near 2^63; no machine has a quarter of that.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 61;

/// The number that a file holds alone; "max" and what cannot be read: `otherwise`.
std::uint64_t number_in(const std::string& path, std::uint64_t otherwise) {
  const std::string text = read_file(path);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? value : otherwise;
}

std::uint64_t room_in(const std::string& folder, int version) {
  const std::uint64_t limit =
      number_in(folder + (version == 2 ? "/memory.max" : "/memory.limit_in_bytes"), kUnlimitedMemory);
  if (limit >= kNoLimit) {
    return kUnlimitedMemory;
  }
  const std::uint64_t used = number_in(folder + (version == 2 ? "/memory.current" : "/memory.usage_in_bytes"), 0);
  const std::string statistics = read_file(folder + "/memory.stat");
  // Of version 1 the usage counts the groups below too, and these lines begin with "total_".
  const std::string prefix = version == 2 ? "" : "total_";
  return room_below(
      limit, used,
      number_of_line(statistics, prefix + "inactive_file", 0) + number_of_line(statistics, prefix + "active_file", 0));
}

}  // namespace

std::uint64_t number_of_line(std::string_view text, std::string_view name, std::uint64_t otherwise) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name)) {
      continue;
    }
    line.remove_prefix(name.size());
    const std::size_t digits = line.find_first_not_of(line.starts_with(':') ? ": " : " ");
    if (digits == 0 || digits == std::string_view::npos) {
      continue;  // another name that begins with this one
    }
    line.remove_prefix(digits);
    std::uint64_t value = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error == std::errc{}) {
      return std::string_view(stop, static_cast<std::size_t>(line.data() + line.size() - stop)) == " kB" ? value * 1024
                                                                                                         : value;
    }
  }
  return otherwise;
}

std::uint64_t room_below(std::uint64_t limit, std::uint64_t used, std::uint64_t reclaimable) {
  const std::uint64_t taken = used - std::min(used, reclaimable) + limit / 32;
  return limit - std::min(limit, taken);
}

std::uint64_t memory_room(const std::string& root) {
  const std::string machine = read_file(root + "/proc/meminfo");
  std::uint64_t room = number_of_line(machine, "MemAvailable", kUnlimitedMemory);
  if (room != kUnlimitedMemory) {
    const std::uint64_t total = number_of_line(machine, "MemTotal", room);
    room = room_below(total, total - std::min(total, room), 0);
  }
  for (const CgroupFolder& folder : cgroup_folders("memory", root)) {
    room = std::min(room, room_in(root + folder.path, folder.version));
  }
  return room;
}

}  // namespace ronde
