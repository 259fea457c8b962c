#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

namespace ronde {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4);

FutexResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Nanoseconds limit) {
  // Always with a time limit: the kernel restarts a wait without one after a handler installed with SA_RESTART, and
  // the caller would never see the signal.
  constexpr Nanoseconds kLongest = 3600 * kSecond;
  const Nanoseconds span = std::clamp<Nanoseconds>(limit, 0, kLongest);
  const timespec timeout{static_cast<time_t>(span / kSecond), static_cast<long>(span % kSecond)};
  if (::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0) == 0 || errno == EAGAIN) {
    return FutexResult::woken;
  }
  return errno == EINTR ? FutexResult::interrupted : FutexResult::timeout;
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ronde
