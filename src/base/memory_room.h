// How much memory this process can still take before the machine or its container refuses, asked before taking it: a
// page of shared memory that does not exist cannot be refused with an error once it is touched, only by a signal.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace ronde {

inline constexpr std::uint64_t kUnlimitedMemory = std::numeric_limits<std::uint64_t>::max();

/// Bytes, the smallest of what the machine has available (MemAvailable) and what is left below the limit of each
/// control group, versions 1 and 2, file caches counted as free since the kernel drops them first, less a 32nd of
/// each limit for everybody else. kUnlimitedMemory where nothing can be read. A guess: others take memory meanwhile.
/// `root` stands in front of every path that is read ("" for the machine, a folder for tests).
std::uint64_t memory_room(const std::string& root = "");

/// The pure parts.
/// The number of a line "name: 123 kB" (in bytes then) or "name 123"; `otherwise` if there is none.
std::uint64_t number_of_line(std::string_view text, std::string_view name, std::uint64_t otherwise);
/// Room below a limit of which `used` bytes are taken and `reclaimable` of these can be dropped.
std::uint64_t room_below(std::uint64_t limit, std::uint64_t used, std::uint64_t reclaimable);

}  // namespace ronde
