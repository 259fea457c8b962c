// RulesLine: what one rank of a host says for all of them.
#pragma once

#include <atomic>
#include <cstdint>

#include "transport/line.h"

namespace ronde::transport {

/// Numbers that the ranks of a host must have alike and of which the first rank's are everyone's; their meaning is that
/// of collectives/tuning/host_thresholds.h. Written once by its owner, before it takes part in any collective.
struct alignas(kLineBytes) RulesLine {
  std::atomic<std::uint64_t> is_set{0};  ///< release, after the numbers
  std::uint64_t numbers[8] = {};
};

}  // namespace ronde::transport
