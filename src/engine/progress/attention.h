// Attention: whether the engine thread looks by itself. While buckets are replayed it does, so that nobody wakes it,
// neither a submit of this rank nor a word of a peer: waking a thread costs more than a submit may. Kept up until
// nothing was replayed for kAttentionSpan.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace ronde::engine {

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
