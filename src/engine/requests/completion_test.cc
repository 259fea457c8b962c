#include "engine/requests/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TicketPtr ticket(const std::string& name, bool has_callback = false) {
  Request request;
  request.name = name;
  return std::make_shared<Ticket>(std::move(request),
                                  has_callback ? DoneCallback([](const TicketPtr&, const Status&) {}) : DoneCallback());
}

class CompletionTest : public testing::Test {
 protected:
  CompletionTest() : completion_(clock_, counters_) {
    completion_.set_hooks([this] { ++wakes_; },
                          [this](const TicketPtr& ticket, Status, std::shared_ptr<void>) {
                            if (ticket->name() == throws_at_) {
                              throw std::bad_alloc();
                            }
                            queued_.push_back(ticket->name());
                          });
  }
  TicketPtr submitted(const std::string& name, bool has_callback = false) {
    counters_.requests.fetch_add(1);
    return ticket(name, has_callback);
  }

  FakeClock clock_;
  Counters counters_;
  Completion completion_;
  int wakes_ = 0;
  std::vector<std::string> queued_;
  std::string throws_at_;
};

TEST_F(CompletionTest, ARequestEndsOnceWhateverComesLater) {
  const TicketPtr one = submitted("one", true);
  EXPECT_TRUE(completion_.has_outstanding());
  completion_.finish(one, Status::error(Code::peer_left, "rank 1 has left"));
  completion_.finish(one, {});
  EXPECT_EQ(one->status().code(), Code::peer_left);
  EXPECT_FALSE(completion_.has_outstanding());
  EXPECT_EQ(wakes_, 1);
  EXPECT_THAT(queued_, ElementsAre("one"));
}

TEST_F(CompletionTest, WhoWaitsIsWokenOnceForMany) {
  std::vector<TicketPtr> completed = {submitted("a"), submitted("b"), submitted("c")};
  const std::vector<TicketPtr> tickets = completed;
  EXPECT_TRUE(completion_.finish_all(completed));
  EXPECT_EQ(wakes_, 1);
  EXPECT_THAT(completed, IsEmpty());
  for (const TicketPtr& each : tickets) {
    EXPECT_TRUE(each->is_done() && each->status());
  }
  EXPECT_FALSE(completion_.finish_all(completed));
  EXPECT_EQ(wakes_, 1);
}

TEST_F(CompletionTest, AHookThatThrowsEndsNobodyTwiceAndForgetsNobody) {
  std::vector<TicketPtr> completed = {submitted("a"), submitted("b", true), submitted("c", true)};
  throws_at_ = "b";
  EXPECT_THROW(completion_.finish_all(completed), std::bad_alloc);
  EXPECT_EQ(wakes_, 1) << "a waits no longer";
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_EQ(completed[0]->name(), "c");
  EXPECT_TRUE(completion_.finish_all(completed));
  EXPECT_THAT(queued_, ElementsAre("c"));
  EXPECT_FALSE(completion_.has_outstanding());
}

TEST_F(CompletionTest, ItIsLetDownUntilTheNextRequest) {
  EXPECT_FALSE(completion_.is_let_down()) << "nothing was asked for";
  const TicketPtr late = submitted("late");
  completion_.note_let_down();
  EXPECT_FALSE(completion_.is_let_down()) << "it is outstanding";
  completion_.finish(late, Status::error(Code::timed_out, "Timed out"));
  EXPECT_TRUE(completion_.is_let_down());
  completion_.finish(submitted("next"), {});
  EXPECT_FALSE(completion_.is_let_down());
}

}  // namespace
}  // namespace ronde::engine
