// DriverRole: who steps the engines of a process, and who waits.
//
// A waiting thread drives: it takes the driver's role and steps the engines itself, so that a blocking call hands
// nothing over to another thread (a hand-over to a sleeping core and back costs up to 80 us). Other waiters sleep until
// what they wait for has come or the role is free (wait_queue.h). The engine thread (engine_thread.h) drives when
// nobody waits.
//
// Peers wake a rank by its bell (rank_bell.h). Within the process the engine thread is woken by its alarm
// (thread_alarm.h). While buckets are replayed nobody wakes it, since that would cost each call: it looks by itself now
// and then (Attention).
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "engine/core/engine_set.h"
#include "engine/progress/attention.h"
#include "engine/progress/pacing.h"
#include "engine/progress/rank_bell.h"
#include "engine/progress/thread_alarm.h"
#include "engine/progress/wait_queue.h"

namespace ronde::engine {

/// How long a thread waits.
struct WaitLimit {
  WaitLimit(Nanoseconds in_all = kNever, Nanoseconds when_idle = kNever)  // NOLINT: most waits have one limit
      : span(in_all), idle(when_idle) {}

  Nanoseconds span;  ///< in all
  Nanoseconds idle;  ///< after the last moment at which something moved
};

class DriverRole {
 public:
  /// How the engine thread sleeps next.
  struct Rest {
    Nanoseconds until = kNever;  ///< at the latest
    bool minds_bell = false;     ///< its sleep ends when peers ring or links have news
  };

  /// Asked again and again, so it must be cheap.
  using Condition = std::function<bool()>;

  /// All must outlive this.
  DriverRole(EngineSet& engines, const Clock& clock, const Pacing& pacing, ThreadAlarm& alarm);

  // ---- Any thread.

  /// The progress lock: guards the engines' one-thread-at-a-time side.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  /// A driver that sleeps looks again.
  void ring_own_bell() const { bell_.ring(); }
  /// Something was handed in: somebody must look at it.
  void wake_driver();
  void wake_driver_if_any_input() {
    if (engines_.has_input()) {
      wake_driver();
    }
  }
  /// Until it is satisfied, which steps or the call of on_finished() make it; by driving or by sleeping. TIMED_OUT at
  /// the limit (who does not drive sees nothing move), INTERRUPTED after a signal. WOULD_DEADLOCK in a completion
  /// callback.
  Status wait_until(const Condition& satisfied, WaitLimit limit);
  /// Something that a thread may wait for has come. Under the progress lock.
  void on_finished();

  // ---- The engine thread.

  /// Drives until nothing moves, unless a waiter does, or until `is_wanted` elsewhere; then takes the bell, unless a
  /// driver has it or has just had it.
  Rest drive_until_rest(const Condition& is_wanted);
  /// It has found its sleep ended by the bell.
  void silence_bell();
  int bell_fd() const { return bell_.fd(); }
  int news_fd() const { return bell_.news_fd(); }

 private:
  Status drive(const Condition& satisfied, Nanoseconds limit_at, Nanoseconds idle_limit);
  Status sleep_as_driver(const Condition& satisfied, Nanoseconds limit_at);
  void stop_driving();
  bool try_step(bool whole);
  Nanoseconds drive_as_thread(const Condition& is_wanted);

  EngineSet& engines_;
  const Clock& clock_;
  const Pacing pacing_;
  ThreadAlarm& alarm_;
  RankBell bell_;
  bool minds_bell_ = false;  ///< engine thread only
  Attention attention_;

  bool driver_steps_ = false;                 ///< guarded by mutex_: it is the driver that steps
  std::mutex mutex_;                          ///< the progress lock
  std::atomic<bool> driver_{false};           ///< a waiting thread has the driver's role
  std::atomic<bool> driver_has_gone_{false};  ///< a driver has gone since this was last looked at
  std::atomic<bool> slept_to_limit_{false};  ///< the last driver slept until its limit, and nothing moved after it woke
  WaitQueue waiters_;                        ///< that do not drive
};

}  // namespace ronde::engine
