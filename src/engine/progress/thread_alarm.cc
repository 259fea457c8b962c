#include "engine/progress/thread_alarm.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/clock.h"
#include "transport/bell.h"

namespace ronde::engine {

namespace {

/// How long the bell stays silent after a driver has gone. Longer: fewer wake-ups of the engine thread between
/// blocking calls. Shorter: what peers send while nobody waits is noticed sooner.
constexpr Nanoseconds kLinger = kMillisecond;
/// The same while other requests are under way: the next wait of a loop over many tickets comes at once, or else the
/// engine thread must take over.
constexpr Nanoseconds kShortLinger = 100 * kMicrosecond;

}  // namespace

Status ThreadAlarm::open() {
  RONDE_ASSIGN_OR_RETURN(bell_, transport::make_bell_fd());
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  return timer_.is_open() ? Status() : Status::from_errno("timerfd_create", errno);
}

void ThreadAlarm::ring() {
  if (!rung_.exchange(true)) {
    ring_again();
  }
}

void ThreadAlarm::ring_again() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(bell_.get(), &one, sizeof one);
}

void ThreadAlarm::ring_soon(bool work_is_under_way) {
  if (work_is_under_way || (!timer_armed_.load(std::memory_order_relaxed) && !timer_armed_.exchange(true))) {
    timer_armed_.store(true, std::memory_order_relaxed);
    itimerspec when{};
    when.it_value.tv_nsec = work_is_under_way ? kShortLinger : kLinger;
    ::timerfd_settime(timer_.get(), 0, &when, nullptr);
  }
}

void ThreadAlarm::silence_bell() { transport::silence(bell_.get()); }

void ThreadAlarm::silence_timer() {
  std::uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t got = ::read(timer_.get(), &expirations, sizeof expirations);
  timer_armed_.store(false);
}

}  // namespace ronde::engine
