#include "base/thread.h"

#include <gtest/gtest.h>

#include <memory>

namespace ronde {
namespace {

bool is_blocked(int signal) {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(StartThread, RunsWithSignalsBlockedWhichTheStarterStillGets) {
  ASSERT_FALSE(is_blocked(SIGINT));
  bool blocked_there = false;
  // A body that can only be moved.
  auto owned = std::make_unique<int>(7);
  int seen = 0;
  Result<std::thread> thread = start_thread("starting", [&, owned = std::move(owned)] {
    blocked_there = is_blocked(SIGINT) && is_blocked(SIGTERM) && is_blocked(SIGUSR1);
    seen = *owned;
  });
  ASSERT_TRUE(thread) << thread.status().message();
  EXPECT_FALSE(is_blocked(SIGINT));
  thread->join();
  EXPECT_TRUE(blocked_there);
  EXPECT_EQ(seen, 7);
}

}  // namespace
}  // namespace ronde
