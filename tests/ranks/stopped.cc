// A rank is stopped beyond the others' time-out in the middle of an operation, they get an error and use their memory
// for something else, and then it goes on. It must not write into that memory, and must not call a wrong result a
// success.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "stopped.h"
#include "stopped_case.h"
#include "support/rank_test.h"

namespace ronde::test {
namespace {

/// The others fill their tensors with something else, which is there still when the victim has gone on.
void expect_no_late_store(const Case& what, int victim) {
  SCOPED_TRACE(text_of(what) + ", rank " + std::to_string(victim));
  ronde::init();
  {
    Stopped stopped(what, victim);
    ASSERT_NO_FATAL_FAILURE(stopped.warm_up());
    ASSERT_NO_FATAL_FAILURE(stopped.fail());
    if (!stopped.is_victim()) {
      stopped.tensor().fill(kCanary);
    }
    stopped.go_on();
    meet();
    if (!stopped.is_victim()) {
      stopped.tensor().expect(kCanary, "after the stopped rank went on");
    }
  }
  ronde::shutdown();
}

/// In the part that the last rank reduces, and in what it has to reduce first.
TEST(Stopped, InTheMiddleOfADirectReduction) {
  expect_no_late_store({"direct", kLarge, true, false, 750}, size() - 1);
  expect_no_late_store({"direct", kLarge, true, true, 990}, size() - 1);
}

TEST(Stopped, BeforeADirectReduction) {
  expect_no_late_store({"direct", kLarge, true, true, -1}, size() - 1);
  expect_no_late_store({"direct", kLarge, true, false, -1}, 0);  // it coordinates
}

TEST(Stopped, InAnOperationOnPrivateMemory) {
  expect_no_late_store({"ordered", 70001, false, true, 500}, size() - 1);
  expect_no_late_store({"staged", 5000, false, true, 100}, 0);
  expect_no_late_store({"large", kLarge, false, false, 900}, size() - 1);
}

/// Another group's time-out: the job and its shared memory stay usable, with the tensors that the late rank wrote to.
TEST(Stopped, InAGroupWhoseJobGoesOn) {
  const int victim = size() - 1;
  ronde::init();
  std::vector<int> everybody(static_cast<std::size_t>(size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  {
    Stopped stopped({"both", kLarge, true, true, 700}, victim, make_group(everybody));
    const auto reduce_by_job = [&](const std::string& when) {
      for (int i = 0; i < 10; ++i) {
        stopped.tensor().fill(static_cast<float>(test::rank() + i));
        ronde::allreduce(stopped.tensor().values(), {.name = "both", .op = Op::sum});
        stopped.tensor().expect(sum_of_ranks() + static_cast<float>(size() * (i - 1)), when);
      }
    };
    ASSERT_NO_FATAL_FAILURE(stopped.warm_up());
    reduce_by_job("before");
    ASSERT_NO_FATAL_FAILURE(stopped.fail());
    Guarded other("other", kLarge, true);
    other.fill(kCanary);
    stopped.go_on();
    meet();
    reduce_by_job("after");
    other.expect(kCanary, "memory that was taken after the error");
    stopped.tensor().renew();
    other.renew();
    stopped.tensor().fill(kCanary);
    other.fill(kCanary);
    meet();
    stopped.tensor().expect(kCanary, "memory that was given back and taken again");
    other.expect(kCanary, "memory that was given back and taken again");
    reduce_by_job("in new memory");
  }
  ronde::shutdown();
}

/// The program stores beside the tensor all the time, while the engine's thread replaces that page.
TEST(Stopped, NoStoreBesideTheTensorIsLost) {
  ronde::init();
  {
    Stopped stopped({"neighbour", kLarge, true, false, 750}, size() - 1);
    int lost = 0;
    stopped.fail(-1, [&](const Ticket& ticket) {
      volatile float* const before = stopped.tensor().values().data() - 1;
      volatile float* const behind = stopped.tensor().values().data() + stopped.tensor().values().size();
      for (float i = 0; !ticket.is_done(); i = i < 1e6f ? i + 1 : 0) {
        *before = i;
        *behind = i;
        lost += *before != i || *behind != i ? 1 : 0;
      }
      *before = static_cast<float>(test::rank());
      *behind = static_cast<float>(test::rank());
    });
    EXPECT_EQ(lost, 0);
    stopped.go_on();
    meet();
  }
  ronde::shutdown();
}

/// Pages that another group's operation needs as they are are not replaced: then the error says so.
TEST(Stopped, InAPageWhereAnotherGroupIsAtWork) {
  const int victim = size() - 1;
  ronde::init();
  std::vector<int> everybody(static_cast<std::size_t>(size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  {
    Stopped stopped({"one", kLarge, true, false, 750}, victim, make_group(everybody));
    const std::span<float> other(stopped.tensor().values().data() + stopped.tensor().values().size(), 32);
    stopped.tensor().fill(0);
    Ticket ticket = test::rank() == victim ? Ticket() : ronde::allreduce_async(other, {.name = "other", .op = Op::sum});
    std::string text;
    stopped.fail(-1, [&](const Ticket& failed) {
      try {
        failed.wait();
      } catch (const Error& error) {
        text = error.what();
        throw;
      }
    });
    stopped.go_on();
    if (test::rank() == victim) {
      ticket = ronde::allreduce_async(other, {.name = "other", .op = Op::sum});
    } else {
      EXPECT_THAT(text, testing::HasSubstr(shares_memory() ? "the memory of 'one' must not be used any more"
                                                           : "agreed to it but did not do its part"));
    }
    ticket.wait();
    EXPECT_EQ(other[0], static_cast<float>(size() * (size() - 1)) / 2);
    EXPECT_EQ(other[31], other[0]);
    std::fill(other.begin(), other.end(), static_cast<float>(test::rank()));
    meet();
  }
  ronde::shutdown();
}

/// The others do not wait for the end of their calls but leave.
TEST(Stopped, WhileTheOthersShutDown) {
  ronde::init();
  {
    Stopped stopped({"leaving", kLarge, true, false, 750}, size() - 1);
    stopped.fail(-1, [&](const Ticket&) {
      wait_for_state(stopped.process_of_victim(), 'T');
      ronde::shutdown();
    });
    if (!stopped.is_victim()) {
      stopped.tensor().fill(kCanary);
    }
    stopped.go_on();
    meet();
    if (!stopped.is_victim()) {
      stopped.tensor().expect(kCanary, "after the stopped rank went on");
    }
  }
  ronde::shutdown();
}

}  // namespace
}  // namespace ronde::test
