// Pacing: how long a driver polls before it sleeps. Attention: how often the engine thread looks at the peers by
// itself.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace ronde::engine {

/// What follows from how many ranks share how many cores.
struct Pacing {
  Nanoseconds spin_for = 0;   ///< how long a driver that finds nothing polls without giving up its core
  Nanoseconds yield_for = 0;  ///< how long it then gives its core away between looks, before it sleeps
  Nanoseconds attention = 0;  ///< how often an attentive engine thread looks

  static Pacing of(int ranks, double cores);
};

/// Attention: whether the engine thread looks by itself. While buckets are replayed it does, so that nobody wakes it,
/// neither a submit of this rank nor a word of a peer: waking a thread costs more than a submit may. Kept up until
/// nothing was replayed for kAttentionSpan.
class Attention {
 public:
  static constexpr Nanoseconds kAttentionSpan = 10 * kMillisecond;

  /// Engine thread only, before it sleeps; `instances` grows with each bucket that is replayed. True: it looks again by
  /// itself. Ends in a fence: who submits sees it, or the caller sees the submit.
  bool look(Nanoseconds now, std::uint64_t instances);
  /// Any thread, behind a fence: nobody needs to wake the engine thread.
  bool is_on() const { return on_.load(std::memory_order_relaxed); }

 private:
  std::uint64_t seen_ = 0;
  Nanoseconds since_ = 0;
  std::atomic<bool> on_{false};
};

}  // namespace ronde::engine
