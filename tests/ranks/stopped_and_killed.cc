// A rank is stopped in the middle of an operation, and while it is another one dies: the third gets an error within
// moments, and uses its memory for something else before the stopped one goes on.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "stopped.h"
#include "stopped_case.h"
#include "support/rank_test.h"

namespace ronde::test {
namespace {

/// In a process of its own, which may die; the code it ends with. All ranks, the n-th time with `number` n.
int in_a_child(int number, const std::function<void()>& run) {
  const int child = ::fork();
  if (child == 0) {
    for (int i = 1; i < number; ++i) {
      ronde::init();  // the ranks meet by how often they have: under a name that is new to the store
      ronde::shutdown();
    }
    Stopped::count_from(number);
    run();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  meet();
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void expect_no_late_store(const Case& what, int victim, int dies) {
  ronde::init();
  {
    Stopped stopped(what, victim);
    ASSERT_NO_FATAL_FAILURE(stopped.warm_up());
    ASSERT_NO_FATAL_FAILURE(stopped.fail(dies));
    if (!stopped.is_victim()) {
      stopped.tensor().fill(kCanary);
    }
    stopped.go_on();
    stopped.say("goes on");
    EXPECT_TRUE(eventually([&] { return stopped.has_said("goes on", victim); }, 60));
    if (!stopped.is_victim()) {
      stopped.tensor().expect(kCanary, "after the stopped rank went on");
    }
  }
  ronde::shutdown();
}

TEST(StoppedAndKilled, NobodyStoresLateInAnyOperation) {
  std::vector<Case> cases;
  for (const bool replay : {false, true}) {
    for (const int stops_at : {-1, 0, 750}) {
      for (const std::size_t elements : {kLarge, std::size_t{1000}}) {
        cases.push_back({"direct", elements, true, replay, stops_at});
      }
      for (const std::size_t elements : {std::size_t{8}, std::size_t{5000}, std::size_t{70001}}) {
        cases.push_back({"private", elements, false, replay, stops_at});
      }
    }
  }
  const double begin = now_seconds();
  int number = 0;
  for (const Case& each : cases) {
    ++number;
    // Large tensors in shared memory are in parts one rank's each, so this one has work to do at the place.
    const int victim = each.shared ? (each.stops_at == 0 || each.elements < kLarge ? 0 : size() - 1) : number % size();
    const int dies = (victim + 1 + number % (size() - 1)) % size();
    const std::string text = text_of(each) + ", " + std::to_string(each.elements) + " elements, rank " +
                             std::to_string(victim) + " is stopped, rank " + std::to_string(dies) + " dies";
    SCOPED_TRACE(text);
    // What a run that meets its limit was at.
    std::printf("%.1f s: case %d of %zu, %s\n", now_seconds() - begin, number, cases.size(), text.c_str());
    std::fflush(stdout);
    EXPECT_EQ(in_a_child(number, [&] { expect_no_late_store(each, victim, dies); }),
              test::rank() == dies ? 128 + SIGKILL : 0);
  }
}

}  // namespace
}  // namespace ronde::test
