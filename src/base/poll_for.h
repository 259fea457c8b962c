// ppoll() with the library's nanoseconds.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cstddef>

#include "base/clock.h"

namespace ronde {

/// Until one of them is ready, a signal was handled or `limit` has passed; at once if `limit` is not positive, without
/// an end if it is kNever. What ppoll() returns, and errno with it. A negative descriptor is left out.
template <std::size_t N>
int poll_for(pollfd (&descriptors)[N], Nanoseconds limit) {
  const Nanoseconds span = std::max<Nanoseconds>(0, limit);
  const timespec timeout{.tv_sec = span / kSecond, .tv_nsec = span % kSecond};
  return ::ppoll(descriptors, N, limit == kNever ? nullptr : &timeout, nullptr);
}

}  // namespace ronde
