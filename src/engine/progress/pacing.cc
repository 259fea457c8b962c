#include "engine/progress/pacing.h"

#include <algorithm>
#include <cmath>

namespace ronde::engine {

namespace {

/// With a core to itself a driver polls this long before it begins to yield. Short: yielding costs a fifth of a
/// microsecond when nobody else wants the core, and when somebody does, polling keeps the peer from answering.
constexpr Nanoseconds kSpinFor = 5 * kMicrosecond;
/// A driver that has found nothing for this long sleeps. Until then it gives its core away between looks.
constexpr Nanoseconds kYieldFor = 500 * kMicrosecond;
/// How often the engine thread looks while buckets are replayed, and while a driver is in a long step. A look costs a
/// few microseconds, so about one in a hundred.
constexpr Nanoseconds kAttention = 300 * kMicrosecond;

}  // namespace

Pacing Pacing::of(int ranks, double cores) {
  const double ranks_per_core = ranks / std::max(cores, 1.0);
  return {
      .spin_for = cores >= ranks ? kSpinFor : 0,
      // Where many share a core a round of all of them takes long, and who sleeps in it must be woken by a system call.
      .yield_for = kYieldFor * std::clamp(static_cast<int>(ranks_per_core / 4), 1, 8),
      // So that all looks of a core's threads together take no more of it: 32 ranks that looked as often as two kept a
      // core of two from working.
      .attention = kAttention * std::max(1, static_cast<int>(std::ceil(ranks_per_core))),
  };
}

}  // namespace ronde::engine
