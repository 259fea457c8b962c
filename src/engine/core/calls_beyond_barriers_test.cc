// Unnamed calls that some ranks make before a barrier and others do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/requests/call_order.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using testing::HasSubstr;

class CallsBeyondBarriers : public testing::Test {
 protected:
  TicketPtr call(int rank) {
    Request request = test::allreduce("", values_[static_cast<std::size_t>(rank)]);
    request.call_number = world_.engine(rank).take_call_number();
    request.name = CallOrder::name_of(request.call_number);
    request.has_own_number = true;
    return world_.submit(rank, request);
  }

  test::LocalWorld world_{3};
  std::array<std::vector<float>, 3> values_{{{1}, {1}, {1}}};
};

TEST_F(CallsBeyondBarriers, FailOnEveryRankThatMakesThem) {
  const TicketPtr first = call(0);
  const TicketPtr second = call(1);
  const TicketPtr barrier = world_.submit(2, test::barrier("all"));
  world_.settle();
  for (const TicketPtr& ticket : {first, second}) {
    ASSERT_TRUE(ticket->is_done());
    EXPECT_THAT(ticket->status().message(), HasSubstr("made more calls without a name than rank 2"));
  }
  EXPECT_FALSE(barrier->is_done());
}

// Found by the model of unnamed calls: the coordinator drops a request that crossed an error about its call, and counts
// on its rank to fail it.
TEST_F(CallsBeyondBarriers, FailWhenTheErrorCrossesTheRequestOfAnotherRank) {
  const TicketPtr first = call(0);
  const TicketPtr barrier = world_.submit(2, test::barrier("all"));
  while (world_.step(2)) {
  }
  while (world_.step(0)) {
  }
  ASSERT_TRUE(first->is_done());
  const TicketPtr second = call(1);  // its rank has not read the error
  world_.settle();
  ASSERT_TRUE(second->is_done());
  EXPECT_THAT(second->status().message(), HasSubstr("made more calls without a name than rank 2"));
  EXPECT_FALSE(barrier->is_done());
}

TEST_F(CallsBeyondBarriers, LeaveNothingBehind) {
  call(0);
  for (int rank : {2, 0, 1}) {
    world_.submit(rank, test::barrier("all"));
    while (world_.step(rank)) {
    }
  }
  world_.settle();
  std::vector<TicketPtr> next;
  for (int rank = 0; rank < 3; ++rank) {
    next.push_back(call(rank));
  }
  world_.settle();
  for (const TicketPtr& ticket : next) {
    ASSERT_TRUE(ticket->is_done());
    EXPECT_TRUE(ticket->status()) << ticket->status().message();
  }
}

TEST_F(CallsBeyondBarriers, FailBeforeABarrierWithoutAName) {
  const auto unnamed_barrier = [&](int rank) {
    Request request = test::barrier("noname");
    request.has_own_number = true;
    return world_.submit(rank, request);
  };
  for (int round = 0; round < 3; ++round) {
    const TicketPtr beyond = call(1);
    std::vector<TicketPtr> next;
    for (int rank : {1, 0, 2}) {
      next.push_back(unnamed_barrier(rank));
      next.push_back(call(rank));
    }
    world_.settle();
    ASSERT_TRUE(beyond->is_done());
    EXPECT_THAT(beyond->status().message(), HasSubstr("made more calls without a name"));
    for (const TicketPtr& ticket : next) {
      ASSERT_TRUE(ticket->is_done());
      EXPECT_TRUE(ticket->status()) << ticket->status().message();
    }
    for (int rank = 0; rank < 3; ++rank) {
      world_.submit(rank, test::barrier("named " + std::to_string(round)));  // counts too
    }
    world_.settle();
  }
}

/// Slots submit one ticket again and again.
TEST_F(CallsBeyondBarriers, FailBeforeABarrierThatIsSubmittedAgain) {
  std::array<TicketPtr, 3> barriers;
  for (int rank = 0; rank < 3; ++rank) {
    barriers[static_cast<std::size_t>(rank)] = world_.submit(rank, test::barrier("slot"));
  }
  world_.settle();
  for (bool with_owner : {false, true}) {
    for (int rank = 0; rank < 3; ++rank) {
      world_.wait(rank, *barriers[static_cast<std::size_t>(rank)]);
    }
    const TicketPtr beyond = call(1);
    for (int rank = 0; rank < 3; ++rank) {
      const TicketPtr& barrier = barriers[static_cast<std::size_t>(rank)];
      engine::Engine& engine = world_.engine(rank);
      ASSERT_TRUE(with_owner ? engine.resubmit(barrier, nullptr) : engine.submit_again(barrier));
    }
    std::vector<TicketPtr> next;
    for (int rank = 0; rank < 3; ++rank) {
      next.push_back(call(rank));
    }
    world_.settle();
    ASSERT_TRUE(beyond->is_done());
    EXPECT_THAT(beyond->status().message(), HasSubstr("made more calls without a name"));
    for (const TicketPtr& ticket : next) {
      ASSERT_TRUE(ticket->is_done());
      EXPECT_TRUE(ticket->status()) << ticket->status().message();
    }
  }
}

}  // namespace
}  // namespace ronde::engine
