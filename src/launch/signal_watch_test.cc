#include "launch/signal_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ronde::launch {
namespace {

TEST(SignalWatch, GivesSignalsInsteadOfDying) {
  {
    SignalWatch watch({SIGTERM, SIGUSR1});
    EXPECT_EQ(watch.next(), 0);
    ::kill(::getpid(), SIGTERM);
    EXPECT_EQ(watch.next(), SIGTERM);
    EXPECT_EQ(watch.next(), 0);
    ::kill(::getpid(), SIGUSR1);  // not taken: must not end the test when the watch ends
  }
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_FALSE(::sigismember(&mask, SIGTERM));
}

TEST(SignalWatch, WhatIsIgnoredStaysIgnored) {
  const auto before = ::signal(SIGHUP, SIG_IGN);
  {
    SignalWatch watch({SIGHUP});
    ::kill(::getpid(), SIGHUP);
    EXPECT_EQ(watch.next(), 0);
  }
  ::signal(SIGHUP, before);
}

TEST(SignalWatch, AnInterruptBySomeoneReachesABackgroundJobToo) {
  const auto before = ::signal(SIGINT, SIG_IGN);
  {
    SignalWatch watch({SIGINT});
    ::kill(::getpid(), SIGINT);
    EXPECT_EQ(watch.next(), SIGINT);
  }
  ::signal(SIGINT, before);
}

}  // namespace
}  // namespace ronde::launch
