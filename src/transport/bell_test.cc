#include "transport/bell.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <csignal>

#include <atomic>
#include <thread>

#include "transport/arena/mapped_arena.h"

namespace ronde::transport {
namespace {

constexpr Nanoseconds kLongEnough = 20 * kSecond;

bool readable(int fd, int milliseconds) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, milliseconds) == 1;
}

TEST(Bell, RingingSomebodyAwakeDoesNothing) {
  BellLine bell;
  const UniqueFd fd = make_bell_fd().value();
  ring_bell(bell, fd.get());
  EXPECT_EQ(bell.state.load(), kAwake);
  EXPECT_FALSE(readable(fd.get(), 0));
}

TEST(Bell, WritesTheEventfdOnceForAnEngineThreadAsleep) {
  BellLine bell;
  const UniqueFd fd = make_bell_fd().value();
  Sleeper(bell).arm(kEngineSleeps);
  ring_bell(bell, fd.get());
  ring_bell(bell, fd.get());
  EXPECT_EQ(bell.state.load(), kAwake);
  EXPECT_TRUE(readable(fd.get(), 0));
  silence(fd.get());
  EXPECT_FALSE(readable(fd.get(), 0));
  silence(fd.get());
}

TEST(Bell, ARingBetweenArmingAndSleepingIsNotLost) {
  BellLine bell;
  Sleeper sleeper(bell);
  sleeper.arm(kWaiterSleeps);
  ring_bell(bell, -1);
  EXPECT_EQ(sleeper.sleep(kLongEnough), Wake::rung);
}

TEST(Bell, SleepEndsAtItsLimit) {
  BellLine bell;
  Sleeper sleeper(bell);
  sleeper.arm(kWaiterSleeps);
  EXPECT_EQ(sleeper.sleep(2 * kMillisecond), Wake::timeout);
  EXPECT_EQ(sleeper.sleep(0), Wake::timeout);
  EXPECT_EQ(sleeper.sleep(-5), Wake::timeout);
  sleeper.disarm();
  EXPECT_EQ(bell.state.load(), kAwake);
}

void ignore_signal(int) {}

TEST(Bell, ASignalInterruptsEvenWithARestartingHandler) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = ignore_signal;
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  BellLine bell;
  std::atomic<bool> over{false};
  Wake wake = Wake::rung;
  std::thread thread([&] {
    Sleeper sleeper(bell);
    sleeper.arm(kWaiterSleeps);
    wake = sleeper.sleep(kNever);
    over.store(true);
  });
  // A signal that comes before the system call interrupts nothing, so send until it is over.
  while (!over.load()) {
    ::pthread_kill(thread.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  thread.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(wake, Wake::interrupted);
}

/// One side of a ping-pong that sleeps between any two turns.
void play(std::atomic<int>& turn, int mine, int other, int rounds, BellLine& own, BellLine& peer, int peer_fd,
          std::atomic<int>& timeouts) {
  Sleeper sleeper(own);
  for (int round = 0; round < rounds; ++round) {
    for (;;) {
      if (turn.load(std::memory_order_acquire) == mine) {
        break;
      }
      sleeper.arm(kWaiterSleeps);
      if (turn.load(std::memory_order_acquire) != mine && sleeper.sleep(kLongEnough) == Wake::timeout) {
        timeouts.fetch_add(1);
        return;
      }
      sleeper.disarm();
    }
    turn.store(other, std::memory_order_release);
    ring_bell(peer, peer_fd);
  }
}

TEST(Bell, NoWakeUpIsLostInAPingPongOfSleepers) {
  constexpr int kRounds = 5000;
  BellLine bells[2];
  std::atomic<int> turn{0};
  std::atomic<int> timeouts{0};
  std::thread other([&] { play(turn, 1, 0, kRounds, bells[1], bells[0], -1, timeouts); });
  play(turn, 0, 1, kRounds, bells[0], bells[1], -1, timeouts);
  other.join();
  EXPECT_EQ(timeouts.load(), 0);
}

TEST(Bell, NoWakeUpIsLostOnTheEventfd) {
  constexpr int kRounds = 5000;
  BellLine bell;
  const UniqueFd fd = make_bell_fd().value();
  std::atomic<int> flag{0};
  std::atomic<int> seen{0};
  std::thread engine([&] {
    Sleeper sleeper(bell);
    for (int round = 1; round <= kRounds; ++round) {
      while (flag.load(std::memory_order_acquire) < round) {
        sleeper.arm(kEngineSleeps);
        if (flag.load(std::memory_order_acquire) < round && !readable(fd.get(), 20000)) {
          return;
        }
        sleeper.disarm();
        silence(fd.get());
      }
      seen.store(round, std::memory_order_release);
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    flag.store(round, std::memory_order_release);
    ring_bell(bell, fd.get());
    const RealClock clock;
    const Nanoseconds deadline = clock.now() + kLongEnough;
    while (seen.load(std::memory_order_acquire) < round && clock.now() < deadline) {
      std::this_thread::yield();
    }
    ASSERT_EQ(seen.load(), round);
  }
  engine.join();
}

}  // namespace
}  // namespace ronde::transport
