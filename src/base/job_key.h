// The secret that the processes of one job share, and by which they know each other. It travels in RONDE_KEY, never
// on a command line, which every user of the machine can read.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ronde {

inline constexpr std::size_t kJobKeyBytes = 32;

struct JobKey {
  std::array<std::byte, kJobKeyBytes> bytes{};
  bool operator==(const JobKey&) const = default;  ///< for tests; not in constant time
};

/// A fresh one from the kernel's random numbers. SYSTEM_ERROR if there are none.
Result<JobKey> make_job_key();
/// From 64 hexadecimal digits of either case; else INVALID_ARGUMENT, whose sentence does not repeat the text.
Result<JobKey> parse_job_key(std::string_view hex);
/// 64 lower-case hexadecimal digits.
std::string to_hex(const JobKey& key);

}  // namespace ronde
