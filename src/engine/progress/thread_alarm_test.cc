#include "engine/progress/thread_alarm.h"

#include <gtest/gtest.h>

#include "base/poll_for.h"

namespace ronde::engine {
namespace {

bool is_ringing(int descriptor, Nanoseconds limit = 0) {
  pollfd fds[] = {{descriptor, POLLIN, 0}};
  return poll_for(fds, limit) == 1;
}

class ThreadAlarms : public testing::Test {
 protected:
  void SetUp() override {
    const Status opened = alarm_.open();
    ASSERT_TRUE(opened) << opened.message();
  }

  ThreadAlarm alarm_;
};

TEST_F(ThreadAlarms, RingsOnceUntilTheThreadLooks) {
  EXPECT_FALSE(is_ringing(alarm_.bell()));
  alarm_.ring();
  EXPECT_TRUE(is_ringing(alarm_.bell()));
  alarm_.silence_bell();
  alarm_.ring();
  EXPECT_FALSE(is_ringing(alarm_.bell())) << "it is awake, and has yet to look";
  alarm_.begin_look();
  alarm_.ring();
  EXPECT_TRUE(is_ringing(alarm_.bell()));
}

TEST_F(ThreadAlarms, RingsAgainWhateverWasRungBefore) {
  alarm_.ring();
  alarm_.silence_bell();
  alarm_.ring_again();
  EXPECT_TRUE(is_ringing(alarm_.bell()));
}

TEST_F(ThreadAlarms, RingsSoon) {
  alarm_.ring_soon(false);
  EXPECT_TRUE(is_ringing(alarm_.timer(), 20 * kSecond));
  EXPECT_FALSE(is_ringing(alarm_.bell())) << "that is another's";
  alarm_.silence_timer();
  EXPECT_FALSE(is_ringing(alarm_.timer()));
  alarm_.ring_soon(true);
  EXPECT_TRUE(is_ringing(alarm_.timer(), 20 * kSecond)) << "again once it was silenced";
}

}  // namespace
}  // namespace ronde::engine
