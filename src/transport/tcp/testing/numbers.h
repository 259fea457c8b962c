// For tests of ranks that are connected: numbers and random bytes to send, and to wait for.
#pragma once

#include <poll.h>

#include <cstddef>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "transport/transport.h"

namespace ronde::transport {

/// The same for the same seed.
inline std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  std::minstd_rand random(seed + 1);
  for (std::byte& each : bytes) {
    each = static_cast<std::byte>(random());
  }
  return bytes;
}

inline std::vector<std::byte> number(int value) {
  ByteWriter writer;
  writer.put(value);
  return writer.take();
}

/// Sleeps on the descriptor for news alone. -1: the link has ended, or nothing has come for 20 s. `looker`: of the same
/// rank's job.
inline int wait_for_number(Transport& transport, int from, Transport& looker) {
  const RealClock clock;
  const Nanoseconds deadline = clock.now() + 20 * kSecond;
  std::vector<std::byte> message;
  while (!transport.link(from).receive(message)) {
    const Nanoseconds now = clock.now();
    if (now >= deadline || transport.link(from).has_ended()) {
      return -1;
    }
    pollfd news{transport.news_fd(), POLLIN, 0};
    ::poll(&news, 1, poll_timeout(deadline, now));
    looker.look();
  }
  return ByteReader(message).get<int>();
}

inline int wait_for_number(Transport& job, int from) { return wait_for_number(job, from, job); }

}  // namespace ronde::transport
