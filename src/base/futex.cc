#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace ronde {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4);

FutexResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Nanoseconds limit) {
  timespec span{};
  const timespec* timeout = nullptr;
  if (limit != kNever) {
    span.tv_sec = limit / kSecond;
    span.tv_nsec = limit % kSecond;
    timeout = &span;
  }
  if (::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, timeout, nullptr, 0) == 0 || errno == EAGAIN) {
    return FutexResult::woken;
  }
  return errno == EINTR ? FutexResult::interrupted : FutexResult::timeout;
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ronde
