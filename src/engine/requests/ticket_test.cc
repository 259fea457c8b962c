#include "engine/requests/ticket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

using testing::IsEmpty;

TEST(Ticket, KnowsTheBytesThatItBringsIn) {
  EXPECT_EQ(Ticket(Request{}).input_bytes(), 0u);
  Request request;
  RequestTensor pair;
  pair.input.shape = {3};
  request.tensors = {pair, pair};
  EXPECT_EQ(Ticket(std::move(request)).input_bytes(), 24u);
}

TEST(Ticket, WhatIsSubmittedAgainIsAsIfItHadNeverEnded) {
  Request request;
  request.kind = OpKind::allgather;
  RequestTensor pair;
  pair.input.shape = {1};
  request.tensors = {pair};
  Ticket ticket(std::move(request));
  ASSERT_TRUE(ticket.make_outputs({{1, 1}}, 0, 2));
  ASSERT_EQ(ticket.results().owned_outputs().size(), 1u);
  ticket.want();
  ticket.tell();
  ticket.set_deadline(5);
  ticket.finish(Status::error(Code::timed_out, "late"));
  ticket.rearm();
  EXPECT_FALSE(ticket.is_done());
  EXPECT_FALSE(ticket.is_wanted());
  EXPECT_FALSE(ticket.is_told());
  EXPECT_TRUE(ticket.status());
  EXPECT_EQ(ticket.deadline(), kNever);
  EXPECT_THAT(ticket.results().owned_outputs(), IsEmpty());
}

TEST(Ticket, AJoinGivesItsNumberOnlyUntilItIsSubmittedAgain) {
  Request request;
  request.kind = OpKind::join;
  Ticket ticket(std::move(request));
  ticket.give(2);
  EXPECT_EQ(ticket.results().owned_outputs().size(), 1u);
  ticket.finish({});
  ticket.rearm();
  EXPECT_THAT(ticket.results().owned_outputs(), IsEmpty());
}

TEST(Ticket, OutOfAListItIsAskedForAsOfNow) {
  Ticket ticket{Request{}};
  EXPECT_EQ(ticket.asked_at(5), 5u);
  EXPECT_EQ(ticket.asked_at(9), 9u);
  ticket.set_list(std::make_shared<CallList>());
  EXPECT_EQ(ticket.asked_at(5), 5u);
  EXPECT_EQ(ticket.asked_at(9), 5u);
}

TEST(Ticket, KeepsAnOwnerOnlyForItsCallback) {
  const auto owner = std::make_shared<int>();
  Ticket silent{Request{}};
  silent.set_owner(owner);
  EXPECT_EQ(silent.take_owner(), nullptr);
  Ticket telling{Request{}, [](const TicketPtr&, const Status&) {}};
  telling.set_owner(owner);
  EXPECT_EQ(telling.take_owner(), owner);
  EXPECT_EQ(telling.take_owner(), nullptr);
}

}  // namespace
}  // namespace ronde::engine
