// For tests of ranks that are connected: how one of them ends.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "transport/tcp/testing/numbers.h"

namespace ronde::transport {

/// Rank 0 ends as a process does in which exit handlers run, but nobody destroys what it has made: rank 1 gets all that
/// was sent before finish(), though nothing moves it afterwards.
inline void expect_all_that_was_sent_before_finish(Transport& ending, Transport& receiving) {
  std::thread other([&] {
    ending.link(1).send(random_bytes(8 << 20, 1));
    ending.link(1).send(number(5));
    EXPECT_TRUE(ending.finish());
  });
  std::vector<std::byte> large;
  const RealClock clock;
  const Nanoseconds deadline = clock.now() + 20 * kSecond;
  while (!receiving.link(0).receive(large) && clock.now() < deadline) {
    pollfd news{receiving.news_fd(), POLLIN, 0};
    ::poll(&news, 1, 10);
    receiving.look();
  }
  EXPECT_TRUE(large == random_bytes(8 << 20, 1));
  EXPECT_EQ(wait_for_number(receiving, 0), 5);
  EXPECT_EQ(wait_for_number(receiving, 0), -1);
  EXPECT_TRUE(receiving.link(0).has_ended());
  other.join();
}

/// Both ranks end at once, as the survivors of a third's death do: neither asks any more for what the other has sent
/// it, and neither waits until the other has gone.
inline void expect_no_wait_for_who_ends_too(Transport& one, Transport& other) {
  const auto end = [](Transport& self, int peer) {
    self.link(peer).send(random_bytes(8 << 20, 1));
    EXPECT_TRUE(self.finish());
  };
  std::thread beside([&] { end(other, 0); });
  end(one, 1);
  beside.join();
}

}  // namespace ronde::transport
