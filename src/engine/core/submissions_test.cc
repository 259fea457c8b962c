#include "engine/core/submissions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "engine/testing/recording_backend.h"
#include "transport/loopback/testing/host.h"

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Rank 0 of 2.
class SubmissionsTest : public testing::Test {
 protected:
  SubmissionsTest()
      : peers_(*ranks_[0].peers),
        deaths_(peers_),
        replay_(group_, backend_, peers_, deaths_, pending_, clock_),
        submissions_(group_, 0, backend_, pending_, replay_, inbox_, requests_) {}

  TicketPtr ticket(const std::string& name, OpKind kind = OpKind::allreduce) {
    Request request;
    request.name = name;
    request.kind = kind;
    if (traits(kind).has_tensors) {
      Tensor tensor;
      tensor.data = values_.data();
      tensor.dtype = DType::float32;
      tensor.shape = {2};
      request.tensors.push_back({tensor, tensor});
    }
    if (is_pairwise(kind)) {
      request.root = 1;
    }
    return std::make_shared<Ticket>(std::move(request));
  }
  /// The next unnamed call.
  TicketPtr call() {
    Request request = ticket("")->request();
    request.call_number = submissions_.take_call_number();
    request.has_own_number = true;
    request.name = CallOrder::name_of(request.call_number);
    return std::make_shared<Ticket>(std::move(request));
  }

  const Group group_{0, {0, 1}};
  const std::vector<transport::LoopbackRank> ranks_ = transport::loopback_host(2);
  transport::Peers& peers_;
  Deaths deaths_;
  RecordingBackend backend_;
  PendingTable pending_;
  FakeClock clock_;
  Replay replay_;
  std::atomic<std::uint64_t> requests_{0};
  Inbox inbox_;
  Submissions submissions_;
  std::vector<float> values_ = {1, 2};
};

TEST_F(SubmissionsTest, WhatIsSubmittedWaitsInTheInboxInItsOrder) {
  const TicketPtr a = ticket("a");
  const TicketPtr b = ticket("b");
  EXPECT_FALSE(inbox_.any());
  ASSERT_TRUE(submissions_.submit(a));
  ASSERT_TRUE(submissions_.submit(b));
  EXPECT_TRUE(inbox_.any());
  EXPECT_EQ(requests_.load(), 2u);
  EXPECT_THAT(inbox_.take().tickets, ElementsAre(a, b));
  EXPECT_FALSE(inbox_.any());
  EXPECT_THAT(inbox_.take().tickets, IsEmpty());
}

TEST_F(SubmissionsTest, ANameIsTakenOnce) {
  ASSERT_TRUE(submissions_.submit(ticket("a")));
  EXPECT_EQ(submissions_.submit(ticket("a")).code(), Code::duplicate_name);
  EXPECT_EQ(requests_.load(), 1u);
}

TEST_F(SubmissionsTest, OfManyThoseBeforeARefusalAreSubmitted) {
  ASSERT_TRUE(submissions_.submit(ticket("c")));
  inbox_.take();
  const std::vector<TicketPtr> tickets{ticket("a"), ticket("b"), ticket("c"), ticket("d")};
  std::size_t submitted = 0;
  EXPECT_EQ(submissions_.submit_again(tickets, submitted).code(), Code::duplicate_name);
  EXPECT_EQ(submitted, 2u);
  EXPECT_EQ(inbox_.take().tickets.size(), 2u);
  EXPECT_EQ(requests_.load(), 3u);
}

TEST_F(SubmissionsTest, AfterTheCollectivesPairsAreRefusedToo) {
  inbox_.close_to_collectives(Status::error(Code::peer_left, "rank 1 has left"));
  const Status refused = submissions_.submit(ticket("a"));
  EXPECT_EQ(refused.code(), Code::peer_left);
  EXPECT_THAT(refused.message(), HasSubstr("'a'"));
  EXPECT_TRUE(submissions_.submit(ticket("s", OpKind::send)));
  inbox_.close(Status::error(Code::cancelled, "shut down"));
  EXPECT_EQ(submissions_.submit(ticket("t", OpKind::send)).code(), Code::cancelled);
  EXPECT_EQ(submissions_.submit(ticket("b")).code(), Code::peer_left) << "for the first reason";
  EXPECT_EQ(requests_.load(), 1u);
  EXPECT_FALSE(pending_.find("a") && !pending_.find("a")->is_done());
}

TEST_F(SubmissionsTest, ACallThatIsRefusedIsToldToTheOthers) {
  const std::uint64_t number = submissions_.take_call_number();
  submissions_.refuse_call(number, "no such type");
  const Inbox::Taken taken = inbox_.take();
  ASSERT_EQ(taken.refused.size(), 1u);
  EXPECT_EQ(taken.refused[0].name, CallOrder::name_of(number));
  EXPECT_EQ(taken.refused[0].text, "no such type");
  inbox_.close(Status::error(Code::cancelled, "shut down"));
  submissions_.refuse_call(submissions_.take_call_number(), "no such type");
  EXPECT_FALSE(inbox_.any()) << "nobody waits for it any more";
}

TEST_F(SubmissionsTest, ABarrierBeginsTheCountOfCallsAnew) {
  const std::uint64_t first = submissions_.take_call_number();
  const TicketPtr barrier = ticket("", OpKind::barrier);
  Request request = barrier->request();
  request.has_own_number = true;
  const TicketPtr numbered = std::make_shared<Ticket>(std::move(request));
  ASSERT_TRUE(submissions_.submit_again(numbered));
  EXPECT_EQ(numbered->request().call_number, first) << "the last call before it";
  const std::uint64_t next = submissions_.take_call_number();
  EXPECT_EQ(next >> CallOrder::kCallBits, (first >> CallOrder::kCallBits) + 1);
  submissions_.restart_calls_at(9);
  EXPECT_EQ(submissions_.take_call_number() >> CallOrder::kCallBits, 9u);
}

TEST_F(SubmissionsTest, UnnamedCallsArePlannedByTheirOrder) {
  const TicketPtr first = call();
  const TicketPtr second = call();
  ASSERT_TRUE(submissions_.submit(first));
  ASSERT_TRUE(submissions_.submit(second));
  EXPECT_NE(first->request().planning_name, "");
  EXPECT_NE(first->request().planning_name, second->request().planning_name);
  const Inbox::Taken taken = inbox_.take();
  EXPECT_THAT(taken.tickets, ElementsAre(first, second));
  for (const TicketPtr& each : taken.tickets) {
    inbox_.is_known(*each);
  }
}

}  // namespace
}  // namespace ronde::engine
