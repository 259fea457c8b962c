#include "engine/progress/wait_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace ronde::engine {
namespace {

TEST(WaitQueue, ACallBetweenTheLastLookAndTheSleepIsNotLost) {
  WaitQueue queue;
  WaitQueue::Seat seat(queue);
  queue.call_if_any();
  EXPECT_TRUE(seat.sleep(kNever)) << "it must not sleep";
}

TEST(WaitQueue, WakesAllWhoSleep) {
  WaitQueue queue;
  std::atomic<bool> come{false};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 3; ++i) {
    sleepers.emplace_back([&] {
      while (!come.load()) {
        WaitQueue::Seat seat(queue);
        if (!come.load()) {
          EXPECT_TRUE(seat.sleep(20 * kSecond));
        }
      }
    });
  }
  come.store(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  queue.call_if_any();
  for (std::thread& sleeper : sleepers) {
    sleeper.join();
  }
}

TEST(WaitQueue, WithoutTimeLeftNobodySleeps) {
  WaitQueue queue;
  WaitQueue::Seat seat(queue);
  EXPECT_EQ(seat.sleep(0).code(), Code::timed_out);
  EXPECT_EQ(seat.sleep(-1).code(), Code::timed_out);
}

TEST(WaitQueue, ALimitOnlyEndsTheSleep) {
  WaitQueue queue;
  WaitQueue::Seat seat(queue);
  EXPECT_TRUE(seat.sleep(kMillisecond)) << "the caller looks once more before its time is up";
}

}  // namespace
}  // namespace ronde::engine
