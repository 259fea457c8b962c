// The guardian itself is tested with the whole command (cli/run_test.cc); here is what the launcher does without it.
#include "launch/guardian.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/process_tree.h"

namespace ronde::launch {
namespace {

/// Forks a process that sleeps until it is killed.
pid_t sleeper() {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) {
      ::pause();
    }
  }
  return child;
}

TEST(Guardian, SweepingEndsAllButTheExcepted) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t excepted = sleeper();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  if (::fork() == 0) {
    // A daemon with a child of its own, which is an orphan of ours by the time it runs.
    ::setsid();
    if (::fork() != 0) {
      ::_exit(0);
    }
    sleeper();
    (void)!::write(ready[1], "x", 1);
    while (true) {
      ::pause();
    }
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(sweep_descendants({excepted}, 60 * kSecond), 0);
  EXPECT_TRUE(descendants(list_processes(), ::getpid(), {excepted}).empty());
  EXPECT_EQ(::kill(excepted, 0), 0);
  ::kill(excepted, SIGKILL);
  EXPECT_EQ(::waitpid(excepted, nullptr, 0), excepted);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace ronde::launch
