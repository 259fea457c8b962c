#include "transport/bell.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

namespace ronde::transport {

namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "the futex is the atomic word itself");

/// Not the private kind: ringer and sleeper are different processes.
long shared_futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* limit) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, limit, nullptr, 0);
}

}  // namespace

Result<UniqueFd> make_bell_fd() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.is_open()) {
    return Status::from_errno("eventfd", errno);
  }
  return fd;
}

void ring_bell(BellLine& bell, int event_fd) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ring_bell_after_fence(bell, event_fd);
}

void ring_bell_after_fence(BellLine& bell, int event_fd) {
  if (bell.state.load(std::memory_order_relaxed) == kAwake) {
    return;
  }
  // Of several ringers one gets the state and does the waking.
  const std::uint32_t state = bell.state.exchange(kAwake, std::memory_order_acq_rel);
  if (state == kEngineSleeps) {
    const std::uint64_t one = 1;
    // Fails only with EAGAIN, when the counter is full: then it is readable anyway.
    [[maybe_unused]] const auto written = ::write(event_fd, &one, sizeof one);
  } else if (state == kWaiterSleeps) {
    shared_futex(bell.state, FUTEX_WAKE, INT_MAX, nullptr);
  }
}

void Sleeper::arm(std::uint32_t state) {
  bell_->state.store(state, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool Sleeper::arm_unless_waiter_sleeps() {
  std::uint32_t state = kAwake;
  const bool armed =
      bell_->state.compare_exchange_strong(state, kEngineSleeps, std::memory_order_relaxed) || state == kEngineSleeps;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return armed;
}

Wake Sleeper::sleep(Nanoseconds limit) {
  // Always with a time limit: the kernel restarts a futex wait without one after a handler installed with SA_RESTART,
  // and the caller would never see the signal.
  constexpr Nanoseconds kLongest = 3600 * kSecond;
  const RealClock clock;
  const Nanoseconds deadline = later(clock.now(), std::max<Nanoseconds>(limit, 0));
  for (;;) {
    const Nanoseconds left = std::clamp<Nanoseconds>(deadline - clock.now(), 0, kLongest);
    const timespec span{static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
    const long rc = shared_futex(bell_->state, FUTEX_WAIT, kWaiterSleeps, &span);
    const int error = rc < 0 ? errno : 0;
    if (bell_->state.load(std::memory_order_acquire) != kWaiterSleeps) {
      return Wake::rung;
    }
    if (error == EINTR) {
      return Wake::interrupted;
    }
    if (clock.now() >= deadline) {
      return Wake::timeout;
    }
    // A wake-up for nothing, or an hour is over: sleep on.
  }
}

void Sleeper::disarm() {
  // Peers look at this line with every flag that they store: it must not leave their caches for nothing.
  if (bell_->state.load(std::memory_order_relaxed) != kAwake) {
    bell_->state.store(kAwake, std::memory_order_relaxed);
  }
}

void silence(int event_fd) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(event_fd, &count, sizeof count);
}

}  // namespace ronde::transport
