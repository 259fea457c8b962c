// Requests that a caller cancels, in worlds moved by hand: who hears of it, and what becomes of the memory.
#include "engine/requests/cancellations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/core/engine.h"
#include "engine/testing/messages.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using test::inputs;
using test::LocalWorld;
using test::Vectors;
using testing::AllOf;
using testing::HasSubstr;

class CancellationsTest : public testing::TestWithParam<std::tuple<int, std::size_t>> {
 protected:
  CancellationsTest() : world_(std::get<0>(GetParam())), values_(inputs(world(), std::get<1>(GetParam()))) {}

  static int world() { return std::get<0>(GetParam()); }

  TicketPtr submit(int rank) {
    return world_.submit(rank, test::allreduce("x", values_[static_cast<std::size_t>(rank)]));
  }

  void cancel(int rank, const TicketPtr& ticket) {
    world_.engine(rank).cancel(ticket);
    EXPECT_TRUE(world_.engine(rank).has_input()) << "the engine must be woken for it";
    settle();
  }

  /// Time passes as well: a cancellation that met an entry of the log on its way is looked at again.
  void settle() {
    for (int look = 0; look < 5; ++look) {
      world_.settle();
      world_.clock().advance(10 * kMillisecond);
    }
    world_.settle();
  }

  void expect_cancelled_by(int culprit, int rank, const TicketPtr& ticket) {
    ASSERT_TRUE(ticket->is_done()) << rank;
    EXPECT_EQ(ticket->status().code(), Code::cancelled) << ticket->status().message();
    EXPECT_EQ(ticket->status().failed_rank(), culprit);
    EXPECT_THAT(ticket->status().message(), HasSubstr("rank " + std::to_string(culprit) + " has cancelled"));
    world_.wait(rank, *ticket);
  }

  /// All ranks, with fresh values.
  void reduce() {
    values_ = inputs(world(), std::get<1>(GetParam()));
    const std::vector<float> total = sum(values_);
    std::vector<TicketPtr> tickets;
    for (int rank = 0; rank < world(); ++rank) {
      tickets.push_back(submit(rank));
    }
    world_.settle();
    for (int rank = 0; rank < world(); ++rank) {
      const TicketPtr& ticket = tickets[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(ticket->is_done());
      ASSERT_TRUE(ticket->status()) << ticket->status().message();
      EXPECT_EQ(values_[static_cast<std::size_t>(rank)], total);
      world_.wait(rank, *ticket);
    }
  }

  static std::vector<float> sum(const Vectors& values) {
    std::vector<float> total(values[0].size());
    for (const std::vector<float>& each : values) {
      for (std::size_t i = 0; i < total.size(); ++i) {
        total[i] += each[i];
      }
    }
    return total;
  }

  /// Each rank alone, in turn: its memory is its own again, and the others' calls of that time hear of it.
  void cancel_on_each_rank() {
    for (int culprit = 0; culprit < world(); ++culprit) {
      const TicketPtr ticket = submit(culprit);
      world_.settle();
      ASSERT_FALSE(ticket->is_done());
      cancel(culprit, ticket);
      expect_cancelled_by(culprit, culprit, ticket);
      const Vectors before = values_;
      for (int rank = 0; rank < world(); ++rank) {
        if (rank != culprit) {
          const TicketPtr late = submit(rank);
          world_.settle();
          expect_cancelled_by(culprit, rank, late);
        }
      }
      EXPECT_EQ(values_, before);
      reduce();
    }
  }

  LocalWorld world_;
  Vectors values_;
};
INSTANTIATE_TEST_SUITE_P(Worlds, CancellationsTest,
                         testing::Combine(testing::Values(2, 3, 5), testing::Values(1u, 5000u, 100000u)));

TEST_P(CancellationsTest, FailsOnAllWhileItIsNegotiated) { cancel_on_each_rank(); }

TEST_P(CancellationsTest, FailsOnAllInReplay) {
  for (int step = 0; step < 10; ++step) {
    reduce();
  }
  ASSERT_GT(world_.engine(1).replay_counters().instances, 0u);
  cancel_on_each_rank();
}

TEST_P(CancellationsTest, SucceedsWhereAllRanksHaveMadeTheCall) {
  std::vector<TicketPtr> tickets;
  for (int rank = 0; rank < world(); ++rank) {
    tickets.push_back(submit(rank));
  }
  const std::vector<float> total = sum(values_);
  cancel(world() - 1, tickets.back());
  int failed = 0;
  for (int rank = 0; rank < world(); ++rank) {
    const TicketPtr& ticket = tickets[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(ticket->is_done());
    failed += ticket->status() ? 0 : 1;
    EXPECT_TRUE(!ticket->status() || values_[static_cast<std::size_t>(rank)] == total);
    world_.wait(rank, *ticket);
  }
  EXPECT_TRUE(failed == 0 || failed == world()) << "all or none";
  reduce();
}

TEST_P(CancellationsTest, DoesNothingAfterTheEnd) {
  reduce();
  const TicketPtr first = submit(0);
  for (int rank = 1; rank < world(); ++rank) {
    submit(rank);
  }
  world_.settle();
  ASSERT_TRUE(first->is_done() && first->status());
  world_.engine(0).cancel(first);
  settle();
  EXPECT_TRUE(first->status());
  for (int rank = 0; rank < world(); ++rank) {
    EXPECT_EQ(world_.engine(rank).next_timer(), kNever) << "nothing is left to look at";
  }
}

// As a slot's ticket is: what was cancelled is one use of it.
TEST(Cancellations, EndWithTheUseOfATicketThatIsSubmittedAgain) {
  LocalWorld world(2);
  Vectors values = inputs(2, 3);
  const auto ticket = std::make_shared<Ticket>(test::allreduce("x", values[0]));
  ticket->keep_name();
  const auto submit_again = [&] {
    ASSERT_TRUE(world.engine(0).submit_again(ticket));
    world.settle();
    ASSERT_FALSE(ticket->is_done());
  };
  submit_again();
  world.engine(0).cancel(ticket);
  world.settle();
  ASSERT_TRUE(ticket->is_done());
  EXPECT_EQ(ticket->status().code(), Code::cancelled);
  world.wait(0, *ticket);
  const TicketPtr late = world.submit(1, test::allreduce("x", values[1]));
  world.settle();
  ASSERT_TRUE(late->is_done());
  world.wait(1, *late);

  ticket->rearm();
  submit_again();
  world.clock().advance(kSecond);
  world.settle();
  EXPECT_FALSE(ticket->is_done()) << "nobody has cancelled this one";
  const TicketPtr there = world.submit(1, test::allreduce("x", values[1]));
  world.settle();
  expect_ok(ticket);
  expect_ok(there);
}

TEST(Cancellations, OfASendOrARecvTellThePeer) {
  for (const bool sender_cancels : {true, false}) {
    LocalWorld world(2);
    std::vector<float> out = numbers(1000, 1);
    std::vector<float> in(1000, -1);
    const TicketPtr first = sender_cancels ? world.submit(0, send("s", out, 1)) : world.submit(1, recv("r", in, 0));
    world.settle();
    const int culprit = sender_cancels ? 0 : 1;
    world.engine(culprit).cancel(first);
    world.settle();
    ASSERT_TRUE(first->is_done());
    EXPECT_EQ(first->status().code(), Code::cancelled);
    EXPECT_EQ(first->status().failed_rank(), culprit);
    world.wait(culprit, *first);
    const TicketPtr sending = world.submit(0, send("s2", out, 1));
    const TicketPtr receiving = world.submit(1, recv("r2", in, 0));
    world.settle();
    expect_ok(sending);
    expect_ok(receiving);
    EXPECT_EQ(in, out) << "the next ones meet";
  }
}

}  // namespace
}  // namespace ronde::engine
