// Signals: the library installs no handler, its threads take none, waits return to the caller; waiting costs nothing.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <ronde/ronde.hpp>
#include <thread>

#include "support/rank_test.h"

namespace ronde::test {
namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

TEST(Signals, NoHandlerIsInstalled) {
  std::vector<struct sigaction> before(32);
  for (int signal = 1; signal < 32; ++signal) {
    sigaction(signal, nullptr, &before[static_cast<std::size_t>(signal)]);
  }
  ronde::init();
  for (int signal = 1; signal < 32; ++signal) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    EXPECT_EQ(now.sa_handler, before[static_cast<std::size_t>(signal)].sa_handler) << signal;
  }
  ronde::shutdown();
}

TEST(Signals, AWaitThatIsLongUsesNoProcessorAndIsInterrupted) {
  ronde::init();
  std::vector<float> values(10, 1);
  if (test::rank() == 1) {
    meet();
    ronde::allreduce(values, {.name = "x", .op = Op::sum});
    ronde::shutdown();
    return;
  }
  static std::atomic<int> signals;
  struct sigaction action {};
  action.sa_handler = [](int) { ++signals; };
  action.sa_flags = SA_RESTART;
  struct sigaction before {};
  sigaction(SIGUSR1, &action, &before);

  const Ticket ticket = ronde::allreduce_async(values, {.name = "x", .op = Op::sum});
  const double cpu = cpu_seconds();
  EXPECT_EQ(ronde_wait(ticket.handle(), 2.0), RONDE_TIMED_OUT);
  EXPECT_LT(cpu_seconds() - cpu, 0.1) << "the wait must sleep";

  std::atomic<bool> waiting = true;
  const pthread_t self = pthread_self();
  std::thread sender([&] {
    // Again and again: the first may come before the wait sleeps.
    while (waiting) {
      pthread_kill(self, SIGUSR1);
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(ronde_wait(ticket.handle(), 30.0), RONDE_INTERRUPTED);
  waiting = false;
  sender.join();
  EXPECT_GT(signals, 0);
  meet();
  ticket.wait();
  EXPECT_EQ(values[0], 2);
  sigaction(SIGUSR1, &before, nullptr);
  ronde::shutdown();
}

/// Another thread may end the work just when the signal comes.
TEST(Signals, ACallWithoutATicketDoesNotReturnBeforeItHasEnded) {
  constexpr int kCalls = 20000;
  ronde::init();
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> calling = true;
  const pthread_t self = pthread_self();
  std::thread sender([&] {
    while (calling) {
      pthread_kill(self, SIGUSR1);
      std::this_thread::yield();
    }
  });
  std::thread driver([] {
    std::vector<float> others(3000, 1);
    for (int i = 0; i < kCalls / 4; ++i) {
      const Ticket ticket = ronde::allreduce_async(others, {.name = "others", .op = Op::max});
      while (ronde_wait(ticket.handle(), -1) == RONDE_INTERRUPTED) {
      }
    }
  });
  int failures = 0;
  for (int i = 0; i < kCalls && failures < 5; ++i) {
    float value = 1;
    const int64_t one = 1;
    ronde_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    tensor.data = &value;
    tensor.shape = &one;
    tensor.ndim = 1;
    tensor.dtype = RONDE_FLOAT32;
    ronde_request request{};
    request.struct_size = sizeof request;
    request.op = RONDE_ALLREDUCE;
    request.reduce_op = RONDE_SUM;
    request.name = "own";
    request.name_bytes = 3;
    request.inputs = &tensor;
    request.count = 1;
    const ronde_status status = ronde_execute(nullptr, &request, -1, nullptr);
    EXPECT_EQ(status, RONDE_OK) << i << ": " << ronde_last_error();
    EXPECT_EQ(value, 2);
    failures += status == RONDE_OK ? 0 : 1;
  }
  calling = false;
  sender.join();
  driver.join();
  sigaction(SIGUSR1, &before, nullptr);
  ronde::shutdown();
}

}  // namespace
}  // namespace ronde::test
