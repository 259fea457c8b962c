// Time as the engine sees it: monotonic, in nanoseconds, real or set by a test.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

namespace ronde {

/// Nanoseconds of a monotonic clock. kNever is later than every moment.
using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
inline constexpr Nanoseconds kMicrosecond = 1000;
inline constexpr Nanoseconds kMillisecond = 1000 * kMicrosecond;
inline constexpr Nanoseconds kSecond = 1000 * kMillisecond;

/// Seconds to nanoseconds, saturating at kNever; used for limits that users give in seconds.
inline Nanoseconds from_seconds(double seconds) {
  const double nanoseconds = seconds * 1e9;
  return nanoseconds < 9e18 ? static_cast<Nanoseconds>(nanoseconds) : kNever;  // not a number: never
}

/// moment + span, where kNever stays kNever.
inline Nanoseconds later(Nanoseconds moment, Nanoseconds span) {
  return span >= kNever - moment ? kNever : moment + span;
}

/// The time-out that poll() and epoll_wait() take for a wait until `deadline`: milliseconds, rounded up, -1 for kNever.
/// At most an hour: a wait may end early, callers look at the clock.
inline int poll_timeout(Nanoseconds deadline, Nanoseconds now) {
  constexpr Nanoseconds kHour = 3600 * kSecond;
  if (deadline == kNever) {
    return -1;
  }
  const Nanoseconds span = deadline <= now ? 0 : std::min(deadline - now, kHour);
  return static_cast<int>((span + kMillisecond - 1) / kMillisecond);
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanoseconds now() const = 0;
};

/// The span from now to `deadline`, 0 if it has passed.
inline Nanoseconds time_left(const Clock& clock, Nanoseconds deadline) {
  return deadline == kNever ? kNever : std::max<Nanoseconds>(0, deadline - clock.now());
}

class RealClock final : public Clock {
 public:
  Nanoseconds now() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

/// Moves only when a test says so. Any thread may read while one advances.
class FakeClock final : public Clock {
 public:
  Nanoseconds now() const override { return now_.load(std::memory_order_relaxed); }
  void advance(Nanoseconds span) { now_.fetch_add(span, std::memory_order_relaxed); }

 private:
  std::atomic<Nanoseconds> now_{1};
};

}  // namespace ronde
