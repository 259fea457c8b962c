#include "engine/requests/callback_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "support/log_guard.h"

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CallbackQueues : public testing::Test {
 protected:
  TicketPtr ticket(const std::string& name, DoneCallback on_done) {
    Request request;
    request.name = name;
    request.kind = OpKind::barrier;
    return std::make_shared<Ticket>(std::move(request), std::move(on_done));
  }

  test::LogGuard log_;
  CallbackQueue queue_{3};
};

TEST_F(CallbackQueues, RunsInOrderWithTheStatusOfTheEnd) {
  std::vector<std::string> called;
  const DoneCallback note = [&](const TicketPtr& ticket, const Status& status) {
    EXPECT_TRUE(CallbackQueue::runs_in_this_thread());
    called.push_back(ticket->name() + (status ? " ok" : " " + status.message()));
  };
  queue_.push(ticket("a", note), {}, nullptr);
  queue_.push(ticket("b", note), Status::error(Code::timed_out, "late"), nullptr);
  EXPECT_FALSE(queue_.is_empty());
  EXPECT_THAT(called, ElementsAre());
  queue_.run_all();
  EXPECT_THAT(called, ElementsAre("a ok", "b late"));
  EXPECT_TRUE(queue_.is_empty());
  EXPECT_FALSE(CallbackQueue::runs_in_this_thread());
  queue_.run_all();
  EXPECT_EQ(called.size(), 2u) << "once each";
}

TEST_F(CallbackQueues, WhatACallbackQueuesComesInTheNextRun) {
  int called = 0;
  const TicketPtr second = ticket("second", [&](const TicketPtr&, const Status&) { ++called; });
  queue_.push(ticket("first", [&](const TicketPtr&, const Status&) { queue_.push(second, {}, nullptr); }), {}, nullptr);
  queue_.run_all();
  EXPECT_EQ(called, 0);
  EXPECT_FALSE(queue_.is_empty());
  queue_.run_all();
  EXPECT_EQ(called, 1);
}

TEST_F(CallbackQueues, TheOwnerLivesUntilItHasRun) {
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owner;
  bool was_alive = false;
  queue_.push(ticket("a", [&](const TicketPtr&, const Status&) { was_alive = !watched.expired(); }), {},
              std::move(owner));
  queue_.run_all();
  EXPECT_TRUE(was_alive);
  EXPECT_TRUE(watched.expired());
}

TEST_F(CallbackQueues, WhatOneThrowsTakesNothingFromTheOthersAndLeavesNoMark) {
  int called = 0;
  queue_.push(ticket("x1", [](const TicketPtr&, const Status&) { throw std::runtime_error("of the first"); }), {},
              nullptr);
  queue_.push(ticket("x2", [](const TicketPtr&, const Status&) { throw 17; }), {}, nullptr);  // NOLINT: of a program
  queue_.push(ticket("x3", [&](const TicketPtr&, const Status&) { ++called; }), {}, nullptr);
  queue_.run_all();
  EXPECT_EQ(called, 1);
  EXPECT_FALSE(CallbackQueue::runs_in_this_thread());
  EXPECT_THAT(log_.take(), ElementsAre(HasSubstr("the completion callback of 'x1' has thrown: of the first"),
                                       HasSubstr("of 'x2' has thrown: something that is no std::exception")));
}

}  // namespace
}  // namespace ronde::engine
