#include "engine/progress/rank_bell.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace ronde::engine {
namespace {

using transport::Wake;

bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

/// Of a rank whose links have news of their own, or not.
class RankBellTest : public ::testing::TestWithParam<bool> {
 protected:
  transport::BellLine line_;
  UniqueFd event_fd_ = std::move(transport::make_bell_fd()).value();
  UniqueFd news_ = std::move(transport::make_bell_fd()).value();
  RankBell bell_{{&line_, event_fd_.get()}, GetParam() ? news_.get() : -1};
};

INSTANTIATE_TEST_SUITE_P(WithNewsOrNot, RankBellTest, ::testing::Bool());

TEST_P(RankBellTest, ADriversSleepEndsWhenItsTimeIsUp) {
  bell_.arm_for_driver();
  EXPECT_EQ(bell_.sleep_as_driver(kMillisecond), Wake::timeout);
  bell_.disarm();
}

TEST_P(RankBellTest, WhatWasRungBeforeTheSleepEndsIt) {
  bell_.arm_for_driver();
  bell_.ring();
  EXPECT_EQ(bell_.sleep_as_driver(60 * kSecond), Wake::rung);
  bell_.disarm();
  EXPECT_FALSE(is_readable(bell_.fd())) << "a ring ends one sleep";
}

TEST_P(RankBellTest, WhatIsRungInTheSleepEndsIt) {
  for (int i = 0; i < 100; ++i) {
    bell_.arm_for_driver();
    std::thread ringer([&] { bell_.ring(); });
    EXPECT_EQ(bell_.sleep_as_driver(60 * kSecond), Wake::rung);
    bell_.disarm();
    ringer.join();
    transport::silence(bell_.fd());
  }
}

TEST_P(RankBellTest, NobodyIsWokenWhoDoesNotSleep) {
  bell_.arm_for_driver();
  bell_.disarm();
  bell_.ring();
  EXPECT_FALSE(is_readable(bell_.fd()));
}

TEST_P(RankBellTest, TheEngineThreadTakesNoBellFromADriverThatSleepsOnItsWord) {
  bell_.arm_for_driver();
  EXPECT_EQ(bell_.arm_for_engine_thread(), GetParam());
  bell_.disarm();
  EXPECT_TRUE(bell_.arm_for_engine_thread());
  bell_.ring();
  EXPECT_TRUE(is_readable(bell_.fd()));
}

TEST_P(RankBellTest, ADriverThatPollsIsWokenAgain) {
  ASSERT_TRUE(bell_.arm_for_engine_thread());
  bell_.ring();
  bell_.silence([] { return false; });
  EXPECT_FALSE(is_readable(bell_.fd()));
  bell_.silence([] { return true; });
  EXPECT_EQ(is_readable(bell_.fd()), GetParam());
}

TEST_P(RankBellTest, NewsOfLinksEndADriversSleep) {
  bell_.arm_for_driver();
  transport::BellLine asleep;
  asleep.state = transport::kEngineSleeps;
  transport::ring_bell(asleep, news_.get());
  EXPECT_EQ(bell_.sleep_as_driver(20 * kMillisecond), GetParam() ? Wake::rung : Wake::timeout);
  EXPECT_TRUE(is_readable(news_.get())) << "the links read their news themselves";
  bell_.disarm();
}

}  // namespace
}  // namespace ronde::engine
