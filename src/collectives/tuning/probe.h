// What this machine's cores take to talk to each other, measured between two of them. What follows from it:
// derived_table.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace ronde::collectives {

struct Measurement {
  double hand_over = 0;            ///< nanoseconds until another core has seen a store
  double fetch = 0;                ///< bytes a nanosecond: a copy of what another core has just written
  double copy = 0;                 ///< the same within the own cache
  std::uint64_t near_cache = 0;    ///< bytes of the cache that a core has for itself (L2); 0: not known
  std::uint64_t shared_cache = 0;  ///< of the last one; 0: not known
};

/// One that takes longer is given up.
inline constexpr Nanoseconds kMeasureLimit = 15 * kMillisecond;

/// Measures with two threads, the caller's and one more that inherits from it, each pinned to a core of its own for the
/// while: 2 ms. None if this process may use one core only, if the two cores are too busy to run both at once, or soon
/// after `stop` has become other than 0.
std::optional<Measurement> measure(const std::atomic<std::uint32_t>& stop);
/// The hand-over alone, in nanoseconds: 0.3 ms.
std::optional<double> measure_hand_over(const std::atomic<std::uint32_t>& stop);

}  // namespace ronde::collectives
