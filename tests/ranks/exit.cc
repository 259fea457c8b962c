// A process that ends with work under way. What the engine's threads use must live until they have ended, which is
// after every static object of the program has been destroyed.
//
// Each test ends its process, so CTest runs each one in processes of its own (add_rank_test's FILTERS).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ronde/ronde.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/rank_test.h"

namespace ronde::test {
namespace {

constexpr std::size_t kCount = 100000;
constexpr int kExitCode = 7;

/// In the background, so the engine thread does it. "" or what went wrong.
std::string try_allreduce(const std::string& name) {
  std::vector<float> values(kCount, 1);
  const Ticket ticket = ronde::allreduce_async(values, {.name = name, .op = Op::sum});
  if (!eventually([&] { return ticket.is_done(); }, 60)) {
    return "'" + name + "' was not done in time";
  }
  ticket.wait();
  return values.back() == static_cast<float>(size()) ? ""
                                                     : "'" + name + "' is wrong: " + std::to_string(values.back()) +
                                                           ", first " + std::to_string(values.front());
}

/// A call that fails keeps its error for the thread, the one that exits too, whose own objects are gone by now.
std::string try_error() {
  const ronde_status status = ronde_wait(nullptr, 0);
  const std::string sentence = ronde_last_error();
  return status == RONDE_INVALID_ARGUMENT && !sentence.empty() ? "" : "a failing call's error is '" + sentence + "'";
}

/// Made before main(), so destroyed after every static object that was made later: the library's too, if it had any.
class AtTheVeryEnd {
 public:
  void arm() { armed_ = true; }
  AtTheVeryEnd() = default;
  AtTheVeryEnd(const AtTheVeryEnd&) = delete;
  AtTheVeryEnd& operator=(const AtTheVeryEnd&) = delete;
  ~AtTheVeryEnd() {
    if (!armed_) {
      return;
    }
    // The second and later ones are replayed.
    for (int i = 0; i < 5; ++i) {
      for (const std::string& problem : {try_allreduce("at the end"), try_error()}) {
        if (!problem.empty()) {
          std::fprintf(stderr, "rank %d at exit: %s\n", test::rank(), problem.c_str());
          std::_Exit(9);
        }
      }
    }
  }

 private:
  bool armed_ = false;
};

AtTheVeryEnd at_the_very_end;

/// Work under way that nobody waits for; what it works on is never freed.
void leave_work_under_way(int count) {
  static auto* const values = new std::vector<std::vector<float>>;
  static auto* const tickets = new std::vector<Ticket>;
  for (int i = 0; i < count; ++i) {
    values->emplace_back(kCount, 1.F);
  }
  for (int i = 0; i < count; ++i) {
    tickets->push_back(ronde::allreduce_async((*values)[static_cast<std::size_t>(i)],
                                              {.name = "under way " + std::to_string(i), .op = Op::sum}));
  }
}

void start() {
  ronde::init();
  EXPECT_EQ(try_allreduce("first"), "");
  EXPECT_EQ(try_error(), "");
}

TEST(Exit, ReturnFromMain) {
  start();
  at_the_very_end.arm();
  leave_work_under_way(20);
}

TEST(Exit, ReturnFromMainWithNothingWaitedFor) {
  start();
  leave_work_under_way(20);
}

TEST(Exit, FromAThreadWhileAnotherWaits) {
  start();
  at_the_very_end.arm();
  expect_exit(kExitCode);
  leave_work_under_way(20);
  std::thread([] {
    EXPECT_EQ(try_allreduce("thread"), "");
    std::exit(kExitCode);
  }).detach();
  try {
    for (std::vector<float> values(kCount, 1);;) {
      ronde::allreduce(values, {.name = "waited for"});
    }
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Code::cancelled || error.code() == Code::not_initialized ||
                error.code() == Code::peer_left)
        << error.what();
  }
  for (;;) {
    ::pause();  // main() may not return while exit() runs
  }
}

TEST(Exit, FromACallback) {
  start();
  expect_exit(kExitCode);
  leave_work_under_way(20);
  static std::vector<float> values(kCount, 1);
  const Ticket ticket =
      ronde::allreduce_async(values, {.name = "x", .on_done = [](const Error*) { std::exit(kExitCode); }});
  for (;;) {
    ::pause();
  }
}

TEST(Exit, OfAnInterpreter) {
  // A sanitizer's run-time library must be there first; its look for leaks would find the interpreter's own.
  ::setenv("LD_PRELOAD", RONDE_TEST_PRELOAD, 1);
  const char* const options = std::getenv("ASAN_OPTIONS");
  ::setenv("ASAN_OPTIONS", ((options == nullptr ? "" : std::string(options) + ":") + "detect_leaks=0").c_str(), 1);
  ::setenv("RONDE_LIBRARY", RONDE_TEST_LIBRARY, 1);
  ::setenv("PYTHONPATH", RONDE_TEST_SOURCES "/python", 1);
  ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  ::execl(RONDE_TEST_PYTHON, RONDE_TEST_PYTHON, RONDE_TEST_SOURCES "/tests/ranks/interpreter_exit.py", nullptr);
  FAIL() << "cannot start " << RONDE_TEST_PYTHON << ": " << std::strerror(errno);
}

}  // namespace
}  // namespace ronde::test
