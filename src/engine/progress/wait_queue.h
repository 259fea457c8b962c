// WaitQueue: threads of this process that wait while another one drives. They sleep on one word, which changes
// whenever something that one of them waits for may have come: a ticket has ended, or nobody drives any more.
//
// Who calls stores first what the sleepers shall see, then has a fence, then looks whether anybody sleeps. A sleeper
// counts itself (Seat), then looks at what it waits for once more, then sleeps: one of the two sees the other.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/status.h"

namespace ronde::engine {

class WaitQueue {
 public:
  /// A thread's place among the sleepers.
  class Seat {
   public:
    explicit Seat(WaitQueue& queue) : queue_(queue), seen_(queue.calls_.load()) { queue.sleepers_.fetch_add(1); }
    ~Seat() { queue_.sleepers_.fetch_sub(1); }
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    /// Until somebody has called since this seat was taken. TIMED_OUT once `limit` nanoseconds have passed, at once if
    /// it is not positive; INTERRUPTED after a signal.
    Status sleep(Nanoseconds limit);

   private:
    WaitQueue& queue_;
    const std::uint32_t seen_;
  };

  /// Requires: a seq_cst fence since what the sleepers shall see was stored.
  void call_if_any() {
    if (sleepers_.load() > 0) {
      call();
    }
  }

 private:
  void call();

  std::atomic<std::uint32_t> calls_{0};  ///< slept on (base/futex.h)
  std::atomic<int> sleepers_{0};
};

/// What a wait returns whose own limit has passed, and one that a signal has ended.
Status wait_limit_passed();
Status wait_interrupted();

}  // namespace ronde::engine
