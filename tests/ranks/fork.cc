// A forked child of a rank: every call says so, its exit harms nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ronde/ronde.hpp>
#include <string>

#include "support/fork_at_rest.h"
#include "support/rank_test.h"

namespace {
bool is_forked_child = false;
}

/// LeakSanitizer asks before it looks for leaks at exit. In a child it would take the locks of AddressSanitizer's
/// allocator, of which a thread that the child does not have may have held one at the fork (libsanitizer of GCC 12 does
/// not mind forks): it would wait for ever. glibc's own allocator minds them.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): its name there
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return is_forked_child ? 1 : 0; }

namespace ronde::test {
namespace {

int in_child(int (*body)()) {
  const pid_t pid = fork_at_rest();
  if (pid < 0) {
    return -1;
  }
  if (pid == 0) {
    is_forked_child = true;
    const int code = body();
    std::_Exit(code);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// With nothing on its way that would wake an engine thread in the middle of a fork.
void init_and_rest() {
  ::setenv("RONDE_PROBE", "0", 1);
  ronde::init();
  ronde::barrier();
  meet();
}

TEST(Fork, CallsInTheChildSayForked) {
  init_and_rest();
  EXPECT_EQ(in_child([] {
              ronde_topology topology{};
              topology.struct_size = sizeof topology;
              const bool right = ronde_get_topology(nullptr, &topology) == RONDE_FORKED &&
                                 std::strstr(ronde_last_error(), "forked child") != nullptr &&
                                 ronde_init(nullptr) == RONDE_FORKED && ronde_shutdown() == RONDE_FORKED &&
                                 ronde_is_initialized() == 0;
              return right ? 0 : 1;
            }),
            0);
  // A child that runs the exit handlers and destructors.
  EXPECT_EQ(in_child([]() -> int { std::exit(3); }), 3);
  meet();
  std::vector<float> values(1000, 1);
  ronde::allreduce(values, {.name = "after", .op = Op::sum});
  EXPECT_EQ(values[0], static_cast<float>(size()));
  ronde::shutdown();
}

TEST(Fork, TicketsOfTheParentAreDroppedInTheChildWithoutHarm) {
  init_and_rest();
  static std::vector<float> values(1000, 1);
  for (int forking = 0; forking < size(); ++forking) {
    const std::string name = "pending." + std::to_string(forking);
    if (rank() != forking) {
      meet();  // until then the other one's ticket is under way
      std::vector<float> mine(1000, 1);
      ronde::allreduce(mine, {.name = name, .op = Op::sum});
      meet();
      continue;
    }
    const Ticket ticket = ronde::allreduce_async(values, {.name = name, .op = Op::sum});
    static const Ticket* seen = nullptr;
    seen = &ticket;
    EXPECT_EQ(in_child([] { return ronde_wait(seen->handle(), 1) == RONDE_FORKED ? 0 : 1; }), 0);
    meet();
    ticket.wait();
    EXPECT_EQ(values[0], static_cast<float>(size()));
    meet();
  }
  ronde::shutdown();
}

}  // namespace
}  // namespace ronde::test
