// A rank whose backend cannot begin what all have agreed on, in worlds moved by hand: who is told what, and that nobody
// waits for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/testing/forwarding_backend.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using test::LocalWorld;
using test::Vectors;
using testing::AllOf;
using testing::HasSubstr;

/// Has no memory for plans that have a tensor of this name.
class Refusing final : public ForwardingBackend {
 public:
  Refusing(std::unique_ptr<backend::Backend> inner, std::string refused)
      : ForwardingBackend(std::move(inner)), refused_(std::move(refused)) {}

  Result<std::unique_ptr<Operation>> launch(const Plan& plan) override {
    for (const PlanMember& member : plan.members) {
      if (member.name == refused_) {
        return Status::error(Code::out_of_memory, "no room for a communicator");
      }
    }
    return ForwardingBackend::launch(plan);
  }

 private:
  const std::string refused_;
};

/// Ranks, and the one whose backend refuses.
class LaunchFailure : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  static int size() { return GetParam().first; }
  static int victim() { return GetParam().second; }
  TicketPtr submit(int rank, const std::string& name, std::vector<float>& values) {
    return world_.submit(rank, test::allreduce(name, values));
  }
  std::vector<TicketPtr> submit_all(const std::string& name, Vectors& values) {
    std::vector<TicketPtr> tickets;
    for (int rank = 0; rank < size(); ++rank) {
      tickets.push_back(submit(rank, name, values[static_cast<std::size_t>(rank)]));
    }
    return tickets;
  }
  /// `is_refused`: the call whose plan the victim could not begin.
  void expect_the_end(const std::vector<TicketPtr>& tickets, bool is_refused) {
    for (int rank = 0; rank < size(); ++rank) {
      const TicketPtr& ticket = tickets[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(ticket->is_done()) << ticket->name() << " of rank " << rank;
      const Status& status = ticket->status();
      if (rank == victim()) {
        EXPECT_EQ(status.code(), Code::out_of_memory);
        EXPECT_EQ(status.tensor(), ticket->name());
        EXPECT_THAT(status.message(), AllOf(HasSubstr("'x'"), HasSubstr("no room for a communicator")));
        EXPECT_EQ(status.message().find("unusable") == std::string::npos, is_refused) << status.message();
      } else {
        EXPECT_EQ(status.code(), Code::peer_left) << "rank " << rank << ": " << status.message();
        // Beside those that have given up by then because of it.
        EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(victim()) + " (")) << "rank " << rank;
        EXPECT_NE(status.failed_rank(), rank) << status.message();
      }
    }
  }

  void expect_to_be_in_the_log() {
    EXPECT_THAT(world_.log().take(), testing::ElementsAre(HasSubstr("could not begin 'x' (no room")));
  }

  LocalWorld world_{size(), {}, [](int rank, std::unique_ptr<backend::Backend> inner) {
                      return rank == victim() ? std::make_unique<Refusing>(std::move(inner), "x") : std::move(inner);
                    }};
};

INSTANTIATE_TEST_SUITE_P(Worlds, LaunchFailure,
                         testing::Values(std::pair(1, 0), std::pair(2, 0), std::pair(2, 1), std::pair(3, 0),
                                         std::pair(3, 1), std::pair(5, 4)));

/// Without a limit, and without any time passing: the others wait for a rank that has gone, which they see at once.
TEST_P(LaunchFailure, EndsTheGroupOnEveryRank) {
  Vectors before = test::inputs(size(), 100);
  const std::vector<TicketPtr> good = submit_all("before", before);
  world_.settle();
  for (const TicketPtr& ticket : good) {
    ASSERT_TRUE(ticket->is_done());
    EXPECT_TRUE(ticket->status()) << ticket->status().message();
  }
  Vectors values = test::inputs(size(), 100000);
  Vectors alone = test::inputs(size(), 10);
  const std::vector<TicketPtr> refused = submit_all("x", values);
  world_.settle();
  expect_the_end(refused, true);
  expect_to_be_in_the_log();
  for (int rank = 0; rank < size(); ++rank) {
    Status status = world_.try_submit(rank, test::allreduce("later", alone[static_cast<std::size_t>(rank)]));
    EXPECT_EQ(status.code(), rank == victim() ? Code::out_of_memory : Code::peer_left) << status.message();
  }
}

/// What was agreed behind it, what only some have asked for, and what is replayed just then end with it.
TEST_P(LaunchFailure, EndsAllElseToo) {
  for (int step = 0; step < 4; ++step) {
    Vectors values = test::inputs(size(), 1000);
    const std::vector<TicketPtr> tickets = submit_all("replayed", values);
    world_.settle();
    for (int rank = 0; rank < size(); ++rank) {
      ASSERT_TRUE(tickets[static_cast<std::size_t>(rank)]->is_done());
      world_.wait(rank, *tickets[static_cast<std::size_t>(rank)]);
    }
  }
  Vectors replayed = test::inputs(size(), 1000);
  Vectors values = test::inputs(size(), 100);
  Vectors behind = test::inputs(size(), 100000);
  std::vector<float> half(10);
  std::vector<TicketPtr> replayed_tickets;
  if (size() > 1) {  // the last rank is late
    for (int rank = 0; rank < size() - 1; ++rank) {
      replayed_tickets.push_back(submit(rank, "replayed", replayed[static_cast<std::size_t>(rank)]));
    }
  }
  const TicketPtr waits = size() > 1 ? submit(victim(), "half", half) : nullptr;
  const std::vector<TicketPtr> refused = submit_all("x", values);
  const std::vector<TicketPtr> tickets = submit_all("behind", behind);
  world_.settle();
  expect_the_end(refused, true);
  expect_to_be_in_the_log();
  expect_the_end(tickets, false);
  for (const TicketPtr& ticket : replayed_tickets) {
    ASSERT_TRUE(ticket->is_done());
    EXPECT_FALSE(ticket->status());
  }
  if (waits) {
    ASSERT_TRUE(waits->is_done());
    EXPECT_EQ(waits->status().code(), Code::out_of_memory);
  }
}

}  // namespace
}  // namespace ronde::engine
