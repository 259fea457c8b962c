// Ranks as threads over one loopback host, each with its runner and engine thread, on the real clock.
#include "engine/process/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <csignal>
#include <future>

#include "engine/testing/runners.h"
#include "support/effort.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

class Runners : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Runners, testing::Values(1, 2, 3, 5));

TEST_P(Runners, BlockingCallsInALoop) {
  Job job(GetParam());
  const float expected = static_cast<float>(job.size() * (job.size() + 1) / 2);
  job.run([&](int rank) {
    for (int i = 0; i < 300; ++i) {
      std::vector<float> values(i % 7 == 0 ? 20000 : 3, static_cast<float>(rank + 1));
      const TicketPtr ticket = sum("x", values);
      ASSERT_TRUE(job[rank].submit_to_wait(ticket));
      ASSERT_TRUE(job[rank].wait(*ticket, kNever));
      ASSERT_TRUE(ticket->status()) << ticket->status().message();
      ASSERT_EQ(values.front(), expected);
      ASSERT_EQ(values.back(), expected);
    }
  });
}

TEST_P(Runners, ManyAsynchronousTicketsWaitedForInAnyOrder) {
  Job job(GetParam());
  const float expected = static_cast<float>(job.size() * (job.size() + 1) / 2);
  job.run([&](int rank) {
    for (int step = 0; step < 10; ++step) {
      std::vector<std::vector<float>> values(50, std::vector<float>(100, static_cast<float>(rank + 1)));
      std::vector<TicketPtr> tickets;
      for (std::size_t i = 0; i < values.size(); ++i) {
        tickets.push_back(sum("t" + std::to_string(i), values[i]));
        ASSERT_TRUE(job[rank].submit(tickets.back()));
      }
      for (std::size_t i = 0; i < tickets.size(); ++i) {
        const TicketPtr& ticket = tickets[(i * 7 + static_cast<std::size_t>(rank)) % tickets.size()];
        ASSERT_TRUE(job[rank].wait(*ticket, kNever));
        ASSERT_TRUE(ticket->status()) << ticket->status().message();
      }
      for (const auto& each : values) {
        ASSERT_EQ(each, std::vector<float>(100, expected));
      }
    }
  });
}

// Nobody waits: the engine threads alone must finish it, and run the callbacks.
TEST_P(Runners, CallbacksRunOnTheEngineThreadWithoutAWaiter) {
  Job job(GetParam());
  job.run([&](int rank) {
    std::vector<float> values(1000, static_cast<float>(rank + 1));
    std::promise<std::thread::id> called;
    const TicketPtr ticket =
        sum("x", values, [&](const TicketPtr&, const Status&) { called.set_value(std::this_thread::get_id()); });
    ASSERT_TRUE(job[rank].submit(ticket));
    auto future = called.get_future();
    ASSERT_EQ(future.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_NE(future.get(), std::this_thread::get_id());
    ASSERT_TRUE(job[rank].wait(*ticket, kNever));
  });
}

TEST(Runner, ACallbackMaySubmitButNotWait) {
  Job job(1);
  std::vector<float> values(3, 1);
  const TicketPtr second = sum("second", values);
  std::promise<Status> waited;
  const TicketPtr first = sum("first", values, [&](const TicketPtr&, const Status&) {
    EXPECT_TRUE(job[0].submit(second));
    waited.set_value(job[0].wait(*second, kNever));
  });
  ASSERT_TRUE(job[0].submit(first));
  EXPECT_EQ(waited.get_future().get().code(), Code::would_deadlock);
  EXPECT_TRUE(job[0].wait(*second, kNever));
  EXPECT_TRUE(job[0].wait(*first, kNever));
}

// Callbacks that are due together: the first waits until all are, so that the engine thread has them in one list.
TEST(Runner, ACallbackThatThrowsTakesNothingFromTheOthers) {
  Job job(1);
  test::LogGuard log;  // in the place of the job's
  std::vector<std::vector<float>> values(6, std::vector<float>(3, 1));
  std::promise<void> all_due;
  std::promise<void> first_runs;
  std::vector<std::atomic<int>> called(6);
  const auto callback = [&](std::size_t i) {
    return [&, i](const TicketPtr&, const Status&) {
      ++called[i];
      if (i == 0) {
        first_runs.set_value();
        all_due.get_future().wait();
      }
      if (i == 1) {
        throw std::runtime_error("of the second");
      }
      if (i == 2) {
        throw 17;  // NOLINT: a program may throw anything
      }
    };
  };
  std::vector<TicketPtr> tickets;
  for (std::size_t i = 0; i < values.size(); ++i) {
    tickets.push_back(sum("x" + std::to_string(i), values[i], callback(i)));
    ASSERT_TRUE(job[0].submit(tickets[i]));
    ASSERT_TRUE(job[0].wait(*tickets[i], kNever));
    if (i == 0) {
      first_runs.get_future().wait();
    }
  }
  all_due.set_value();
  // The engine works on, and calls back; a callback that has thrown has left no mark.
  std::vector<float> more(3, 1);
  std::promise<void> last;
  const TicketPtr after = sum("after", more, [&](const TicketPtr&, const Status& status) {
    EXPECT_TRUE(status) << status.message();
    last.set_value();
  });
  ASSERT_TRUE(job[0].submit(after));
  ASSERT_TRUE(job[0].wait(*after, kNever));
  last.get_future().wait();
  for (const std::atomic<int>& calls : called) {
    EXPECT_EQ(calls, 1);
  }
  const std::vector<std::string> lines = log.take();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], testing::HasSubstr("the completion callback of 'x1' has thrown: of the second"));
  EXPECT_THAT(lines[1], testing::HasSubstr("'x2'"));
}

TEST(Runner, SeveralThreadsOfARankWaitAtOnce) {
  Job job(2);
  constexpr int kThreads = 4;
  job.run([&](int rank) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) {
          std::vector<float> values(10, 1);
          const TicketPtr ticket = sum("thread" + std::to_string(t), values);
          ASSERT_TRUE(job[rank].submit_to_wait(ticket));
          ASSERT_TRUE(job[rank].wait(*ticket, kNever));
          ASSERT_EQ(values[9], 2);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });
}

// A request handed in by a second thread while the first sleeps as the driver: somebody must look at it.
TEST(Runner, ASleepingDriverMindsWhatOtherThreadsHandIn) {
  Job job(2);
  std::vector<float> first(3, 1);
  std::vector<float> first_there(3, 1);
  std::vector<float> second(3, 1);
  std::vector<float> second_there(3, 1);
  const TicketPtr slow = sum("slow", first);
  ASSERT_TRUE(job[0].submit_to_wait(slow));
  std::thread driver([&] { EXPECT_TRUE(job[0].wait(*slow, kNever)); });
  const auto& bell = job[0].engine().connections().bell.line->state;
  while (bell.load() != transport::kWaiterSleeps) {
    std::this_thread::yield();
  }
  const TicketPtr there = sum("quick", second_there);
  ASSERT_TRUE(job[1].submit(there));
  const TicketPtr quick = sum("quick", second);
  ASSERT_TRUE(job[0].submit_to_wait(quick));
  EXPECT_TRUE(job[0].wait(*quick, 20 * kSecond)) << "while the driver waits for something else";
  EXPECT_TRUE(job[1].wait(*there, 20 * kSecond));
  const TicketPtr slow_there = sum("slow", first_there);
  ASSERT_TRUE(job[1].submit(slow_there));
  EXPECT_TRUE(job[1].wait(*slow_there, 20 * kSecond));
  driver.join();
}

// Two waiters' tickets finish in one step. The driver goes and calls the sleeper, who has no need to drive: then the
// engine thread must hear of what peers do next, though a waiter was called.
TEST(Runner, AfterTheLastWaiterTheEngineThreadListensAgain) {
  Job job(2);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<float>> values(6, std::vector<float>(3, 1));
    const auto name = [&](const char* base) { return base + std::to_string(round); };
    const TicketPtr first = sum(name("first"), values[0]);
    const TicketPtr second = sum(name("second"), values[1]);
    std::promise<void> finished;
    const TicketPtr unwatched =
        sum(name("unwatched"), values[2], [&](const TicketPtr&, const Status&) { finished.set_value(); });
    for (const TicketPtr& ticket : {first, second, unwatched}) {
      ASSERT_TRUE(job[0].submit(ticket));
    }
    std::thread one([&] { EXPECT_TRUE(job[0].wait(*first, kNever)); });
    std::thread two([&] { EXPECT_TRUE(job[0].wait(*second, kNever)); });
    const TicketPtr first_there = sum(name("first"), values[3]);
    const TicketPtr second_there = sum(name("second"), values[4]);
    ASSERT_TRUE(job[1].submit(first_there));
    ASSERT_TRUE(job[1].submit(second_there));
    EXPECT_TRUE(job[1].wait(*first_there, kNever));
    EXPECT_TRUE(job[1].wait(*second_there, kNever));
    one.join();
    two.join();
    const TicketPtr there = sum(name("unwatched"), values[5]);
    ASSERT_TRUE(job[1].submit(there));
    ASSERT_TRUE(job[1].wait(*there, kNever));
    ASSERT_EQ(finished.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready) << "round " << round;
    ASSERT_TRUE(job[0].wait(*unwatched, kNever));
  }
}

TEST(Runner, WaitAnyReturnsTheOneThatIsDone) {
  Job job(2);
  std::vector<std::vector<float>> values(3, std::vector<float>(4, 1));
  std::vector<TicketPtr> tickets;
  for (std::size_t i = 0; i < 2; ++i) {
    tickets.push_back(sum("t" + std::to_string(i), values[i]));
    ASSERT_TRUE(job[0].submit(tickets.back()));
  }
  const TicketPtr other = sum("t1", values[2]);
  ASSERT_TRUE(job[1].submit(other));
  std::size_t index = 7;
  ASSERT_TRUE(job[0].wait_any(tickets, kNever, index));
  EXPECT_EQ(index, 1u);
  ASSERT_TRUE(job[1].wait(*other, kNever));
}

TEST(Runner, AWaitHasALimitOfItsOwn) {
  Job job(2);
  std::vector<float> mine(3, 1);
  std::vector<float> theirs(3, 2);
  const TicketPtr ticket = sum("x", mine);
  ASSERT_TRUE(job[0].submit(ticket));
  EXPECT_EQ(job[0].wait(*ticket, 20 * kMillisecond).code(), Code::timed_out);
  EXPECT_FALSE(ticket->is_done());
  const TicketPtr other = sum("x", theirs);
  ASSERT_TRUE(job[1].submit(other));
  EXPECT_TRUE(job[0].wait(*ticket, kNever)) << "it was still under way";
  EXPECT_TRUE(job[1].wait(*other, kNever));
  EXPECT_EQ(mine[0], 3);
}

TEST(Runner, ASignalInterruptsTheWait) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;  // as Python installs them
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  Job job(2);
  std::vector<float> values(3, 1);
  const TicketPtr ticket = sum("x", values);
  ASSERT_TRUE(job[0].submit(ticket));
  std::promise<pthread_t> waiter;
  std::promise<Status> ended;
  std::thread thread([&] {
    waiter.set_value(pthread_self());
    ended.set_value(job[0].wait(*ticket, kNever));
  });
  const pthread_t id = waiter.get_future().get();
  auto future = ended.get_future();
  // The first signal may come before the waiter sleeps: then the next one interrupts it.
  do {
    pthread_kill(id, SIGUSR1);
  } while (future.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready);
  EXPECT_EQ(future.get().code(), Code::interrupted);
  thread.join();
  sigaction(SIGUSR1, &before, nullptr);
  std::vector<float> others(3, 1);
  const TicketPtr other = sum("x", others);
  ASSERT_TRUE(job[1].submit(other));
  EXPECT_TRUE(job[1].wait(*other, kNever));
  EXPECT_TRUE(job[0].wait(*ticket, kNever));
}

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// Not a timing: a rank that polled would use the whole second.
TEST(Runner, WaitingAndIdlingUseNoProcessor) {
  Job job(2);
  std::vector<float> values(3, 1);
  const TicketPtr ticket = sum("x", values);
  ASSERT_TRUE(job[0].submit(ticket));
  const double before = process_cpu_seconds();
  EXPECT_EQ(job[0].wait(*ticket, kSecond).code(), Code::timed_out);
  EXPECT_LT(process_cpu_seconds() - before, 0.2);
  std::vector<float> others(3, 1);
  const TicketPtr other = sum("x", others);
  ASSERT_TRUE(job[1].submit(other));
  EXPECT_TRUE(job[1].wait(*other, kNever));
  EXPECT_TRUE(job[0].wait(*ticket, kNever)) << "before its memory goes";
}

TEST(Runner, ShutdownDoesNotWaitForEverForARankThatStays) {
  Settings settings;
  settings.shutdown_timeout = 100 * kMillisecond;
  Job job(2, settings);
  std::vector<float> values(3, 1);
  const TicketPtr pending = sum("x", values);
  ASSERT_TRUE(job[1].submit(pending));
  const Status status = job[0].shutdown();
  EXPECT_EQ(status.code(), Code::timed_out);
  ASSERT_TRUE(job[1].wait(*pending, kNever));
  EXPECT_EQ(pending->status().code(), Code::peer_left);
  EXPECT_EQ(job[1].submit(sum("y", values)).code(), Code::peer_left);
  EXPECT_TRUE(job[1].shutdown());
  job.is_over();
}

TEST(Runner, ShutdownDoesNotWaitAgainForARankThatDidNotComeInTime) {
  Settings settings;
  settings.shutdown_timeout = kNever;
  Job job(2, settings);
  std::vector<float> values(3, 1);
  Request late = test::allreduce("x", values);
  late.timeout = 20 * kMillisecond;
  const auto ticket = std::make_shared<Ticket>(std::move(late));
  ASSERT_TRUE(job[0].submit(ticket));
  ASSERT_TRUE(job[0].wait(*ticket, kNever));
  ASSERT_EQ(ticket->status().code(), Code::timed_out);
  EXPECT_EQ(job[0].shutdown().code(), Code::timed_out);
  EXPECT_TRUE(job[1].shutdown());
  job.is_over();
}

TEST(Runner, LeavingAtOnceTellsTheOthers) {
  Job job(2);
  std::vector<float> values(3, 1);
  const TicketPtr pending = sum("x", values);
  ASSERT_TRUE(job[1].submit(pending));
  job[0].leave_now();
  ASSERT_TRUE(job[1].wait(*pending, kNever));
  EXPECT_EQ(pending->status().code(), Code::peer_left);
  EXPECT_TRUE(job[1].shutdown());
  job.is_over();
}

TEST(Runner, ThreadsBlockedInAWaitAreReleasedByShutdown) {
  Settings settings;
  settings.shutdown_timeout = 5 * kSecond;
  Job job(2, settings);
  std::vector<float> values(3, 1);
  const TicketPtr pending = sum("x", values);
  ASSERT_TRUE(job[0].submit(pending));
  std::thread waiter([&] {
    EXPECT_TRUE(job[0].wait(*pending, kNever));
    // Which of the two it hears of first, its own end or the other's, is a matter of time.
    EXPECT_THAT(pending->status().code(), testing::AnyOf(Code::cancelled, Code::peer_left));
  });
  job.shutdown();
  waiter.join();
}

// Threads that wait, engine threads, and the prober's that hands rows in between: what is in force is the same for all.
TEST_P(Runners, ATableThatIsProbedMeanwhile) {
  Job job(GetParam());
  std::atomic<int> probed{0};
  if (job.size() > 1) {
    ProbeTask task;
    task.ranks = job.size();
    task.first = task.again = task.retry = kMillisecond;
    task.row = job[0].engine().thresholds();
    task.measure = [&](const ProbeTask::Stop&) {
      const double hand_over = ++probed % 2 == 0 ? 25 : 400;
      return collectives::Measurement{hand_over, 14, 32, std::uint64_t{1} << (20 + probed % 2), 0};
    };
    task.measure_hand_over = [](const ProbeTask::Stop&) { return std::optional<double>(100); };
    job[0].start_probing(std::move(task));
  }
  job.run([&](int rank) {
    for (int i = 0; i < effort(1000); ++i) {
      std::vector<float> values(5000, static_cast<float>(rank + i));
      const TicketPtr ticket = sum("x" + std::to_string(i % 7), values);
      ASSERT_TRUE(job[rank].submit(ticket));
      ASSERT_TRUE(job[rank].wait(*ticket, kNever));
      ASSERT_EQ(values[4999], static_cast<float>(job.size() * (job.size() - 1) / 2 + job.size() * i));
    }
  });
  job.shutdown();
  for (int rank = 1; rank < job.size(); ++rank) {
    EXPECT_EQ(job[rank].engine().thresholds(), job[0].engine().thresholds());
  }
}

}  // namespace
}  // namespace ronde::engine
