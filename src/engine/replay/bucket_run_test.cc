#include "engine/replay/bucket_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing/recording_backend.h"

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class BucketRunTest : public testing::Test {
 protected:
  static BucketRun run_of(std::size_t members, Recording& recording) {
    const Bucket bucket = bucket_of(members);
    return BucketRun(std::make_unique<RecordingCollective>(bucket, recording), bucket);
  }
  static TicketPtr ticket(Nanoseconds timeout = kNever, DoneCallback on_done = {}) {
    Request request;
    request.name = "x";
    request.timeout = timeout;
    return std::make_shared<Ticket>(std::move(request), std::move(on_done));
  }
  /// A look at an instance that is full here.
  static BucketRun::Look full(Nanoseconds now) { return {.now = now, .instance = 1}; }

  Recording recording_;
  FakeClock clock_;
  BucketRun run_ = run_of(2, recording_);
};

TEST_F(BucketRunTest, AnInstanceGivesItsTicketsBack) {
  run_.enter(3);
  EXPECT_TRUE(run_.is_in_force());
  const TicketPtr first = ticket();
  const TicketPtr second = ticket();
  run_.tickets()[1] = second;
  run_.copy_in(1, true, clock_);
  run_.tickets()[0] = first;
  run_.copy_in(0, false, clock_);
  run_.publish(0, clock_);
  EXPECT_THAT(recording_, ElementsAre("0: enter 3", "0: copy_in 1", "0: copy_in 0", "0: publish"));
  std::vector<TicketPtr> completed;
  run_.complete(completed);
  EXPECT_THAT(completed, ElementsAre(first, second));
  EXPECT_THAT(run_.tickets(), ElementsAre(nullptr, nullptr));
}

TEST_F(BucketRunTest, WhatWasPublishedIsCancelledWhenItLeaves) {
  run_.enter(1);
  run_.tickets()[0] = ticket();
  recording_.clear();
  run_.leave();
  EXPECT_THAT(recording_, ElementsAre("0: cancel"));
  EXPECT_FALSE(run_.is_in_force());
  EXPECT_FALSE(run_.tickets()[0]);
}

TEST_F(BucketRunTest, ATicketKnowsWhetherItIsAlone) {
  run_.tickets()[0] = ticket();
  run_.copy_in(0, true, clock_);
  EXPECT_FALSE(run_.tickets()[0]->is_alone());
  BucketRun single = run_of(1, recording_);
  single.tickets()[0] = ticket();
  single.copy_in(0, true, clock_);
  EXPECT_TRUE(single.tickets()[0]->is_alone());
}

TEST_F(BucketRunTest, IsWantedBySomebodyWhoWaitsOrWantsToBeTold) {
  run_.tickets()[0] = ticket();
  EXPECT_FALSE(run_.is_wanted());
  run_.tickets()[0]->want();
  EXPECT_TRUE(run_.is_wanted());
  run_.tickets()[0] = ticket(kNever, [](const TicketPtr&, const Status&) {});
  EXPECT_TRUE(run_.is_wanted());
  run_.drop_tickets();
  EXPECT_FALSE(run_.is_wanted());
}

TEST_F(BucketRunTest, ARequestWhoseTimeIsUpBreaksTheEpochAndKnowsWhen) {
  run_.tickets()[0] = ticket(kSecond / 2);
  run_.tickets()[1] = ticket();
  EXPECT_EQ(run_.overdue(full(kSecond)), agreement::Reason::none) << "the first look notes the time";
  const Nanoseconds late = kSecond + kSecond / 2;
  EXPECT_EQ(run_.overdue(full(late)), agreement::Reason::deadline);
  EXPECT_EQ(run_.tickets()[0]->deadline(), late);
  EXPECT_EQ(run_.tickets()[1]->deadline(), kNever);
}

TEST_F(BucketRunTest, ABucketThatStaysHalfFullBreaksTheEpochIfSomebodyWaits) {
  BucketRun::Look look{.now = kSecond, .instance = 1, .is_half_full = true};
  run_.tickets()[0] = ticket();
  run_.overdue(look);
  look.now += kSecond / 2;
  EXPECT_EQ(run_.overdue(look), agreement::Reason::none) << "nobody waits";
  look.has_queued = true;
  run_.overdue(look);
  look.now += kSecond / 2;
  EXPECT_EQ(run_.overdue(look), agreement::Reason::stall) << "who is behind in a queue does";
}

TEST_F(BucketRunTest, ACallThatIsLateInAQueueBreaksTheEpoch) {
  BucketRun::Look look = full(kSecond);
  look.is_queue_late = true;
  EXPECT_EQ(run_.overdue(look), agreement::Reason::deadline);
}

TEST_F(BucketRunTest, IsWatchedOnce) {
  EXPECT_TRUE(run_.begin_watch());
  EXPECT_FALSE(run_.begin_watch());
  run_.end_watch();
  EXPECT_TRUE(run_.begin_watch());
}

}  // namespace
}  // namespace ronde::engine
