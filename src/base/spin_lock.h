// SpinLock: a lock for a few dozen instructions at a time, one atomic exchange to take and one store to leave. Who
// finds it taken gives its core away, since with more threads than cores the holder may not be running.
#pragma once

#include <sched.h>

#include <atomic>

namespace ronde {

/// Meets the named requirement Lockable.
class SpinLock {
 public:
  void lock() {
    while (taken_.exchange(true, std::memory_order_acquire)) {
      ::sched_yield();
    }
  }
  bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace ronde
