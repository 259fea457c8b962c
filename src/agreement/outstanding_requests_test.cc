// Where requests go, by itself. What the member makes of it in each of its modes: member_test.cc.
#include "agreement/outstanding_requests.h"

#include "agreement/testing/member_fixture.h"

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Rank 1. Bucket 0: "a" and "b"; 1: unnamed calls of "plan", one place.
class OutstandingRequestsTest : public testing::Test {
 protected:
  OutstandingRequestsTest() {
    requests_.prepare({0, true, "0", {{"a", tensor(100)}, {"b", tensor(100)}}});
    BucketMember place{"plan 0", tensor(100)};
    place.planning_name = "plan";
    requests_.prepare({1, true, "128", {place}});
  }
  void put_in_force() {
    requests_.buckets().begin_epoch(1);
    requests_.put_in_force({0, 1});
  }
  RequestEntry& entry(const std::string& name) { return requests_.table()[requests_.table().intern(name)]; }
  Lane submit(const std::string& name, std::int64_t elements = 100, bool replays = true) {
    return requests_.submit(entry(name), tensor(elements), 0, replays, sink_);
  }
  /// An unnamed call that is with the coordinator.
  void send_call(const std::string& name, std::int64_t elements = 100) {
    entry(name).planning_name = "plan";
    entry(name).order = requests_.calls().next_order();
    submit(name, elements);
  }
  Lane place_call(std::uint64_t order, std::int64_t elements = 100) {
    Call call{"call " + std::to_string(order), tensor(elements), 7, order};
    return requests_.place_call(*requests_.calls().find("plan"), call, sink_);
  }

  OutstandingRequests requests_{1};
  RecordingSink sink_;
};

TEST_F(OutstandingRequestsTest, WhatIsNotInForceGoesToTheCoordinator) {
  EXPECT_EQ(submit("a"), Lane::sent);
  EXPECT_EQ(submit("x"), Lane::sent);
  EXPECT_EQ(sink_.take().size(), 2u);
}

TEST_F(OutstandingRequestsTest, TheLastPlaceThatIsTakenPublishesTheBucket) {
  put_in_force();
  EXPECT_EQ(submit("b"), Lane::placed);
  EXPECT_THAT(requests_.missing(0), ElementsAre("a"));
  EXPECT_THAT(sink_.take(), ElementsAre("copy_in 0.1 instance 1"));
  EXPECT_EQ(submit("a"), Lane::placed);
  EXPECT_THAT(sink_.take(), ElementsAre("copy_in 0.0 instance 1", "publish 0 1.1"));
  requests_.complete(0, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("complete 0 instance 1"));
  EXPECT_FALSE(requests_.has_outstanding());
}

TEST_F(OutstandingRequestsTest, WhatIsCopiedForTheFlagIsNotCopiedAgain) {
  put_in_force();
  requests_.put(0, 0, entry("a"), make_flag(1, 1), sink_);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(OutstandingRequestsTest, WhatDoesNotFitItsPlaceIsHeldUntilTheEpochIsOver) {
  put_in_force();
  EXPECT_EQ(submit("a", 99), Lane::held);
  EXPECT_EQ(submit("b", 100, false), Lane::held) << "a break is under way";
  EXPECT_THAT(sink_.take(), IsEmpty());
  requests_.leave_epoch({}, sink_);
  EXPECT_EQ(entry("a").lane, Lane::sent);
  EXPECT_EQ(entry("b").lane, Lane::sent);
}

TEST_F(OutstandingRequestsTest, WhatIsWithTheCoordinatorMovesIntoItsPlace) {
  submit("a");
  submit("b", 99);
  send_call("call 1");
  send_call("call 2");
  send_call("call 3", 99);
  sink_.take();
  put_in_force();
  EXPECT_FALSE(requests_.move_into_places({0, 1}, sink_)) << "b has another shape";
  EXPECT_EQ(entry("a").lane, Lane::placed);
  EXPECT_EQ(entry("b").lane, Lane::held);
  EXPECT_EQ(entry("plan 0").call, "call 1");
  EXPECT_TRUE(requests_.has_queued(1)) << "the second call is behind it";
  EXPECT_EQ(entry("call 3").lane, Lane::sent) << "again: it does not fit";
  EXPECT_FALSE(requests_.table().contains("call 1"));
}

TEST_F(OutstandingRequestsTest, ACallThatFindsItsPlaceTakenWaitsForTheEndOfTheInstance) {
  put_in_force();
  EXPECT_EQ(place_call(1), Lane::placed);
  EXPECT_EQ(place_call(2), Lane::queued);
  EXPECT_EQ(place_call(3, 99), Lane::none);
  sink_.take();
  requests_.complete(1, sink_);
  EXPECT_TRUE(requests_.has_outstanding());
  requests_.place_queued(1, sink_);
  EXPECT_EQ(entry("plan 0").call, "call 2");
  EXPECT_THAT(sink_.take(), ElementsAre("complete 1 instance 1", "copy_in 1.0 instance 2", "publish 1 1.2"));
  EXPECT_FALSE(requests_.has_queued(1));
}

TEST_F(OutstandingRequestsTest, AfterTheEpochCallsGoToTheCoordinatorInTheirOrder) {
  put_in_force();
  place_call(1);
  place_call(2);
  submit("a");
  sink_.take();
  requests_.leave_epoch({}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre(testing::HasSubstr("request a"), "ended 1",
                                        testing::HasSubstr("request call 1"), testing::HasSubstr("request call 2")));
  EXPECT_TRUE(requests_.table().is_waiting());
  EXPECT_FALSE(requests_.calls().contains("plan"));
}

TEST_F(OutstandingRequestsTest, WhereNothingIsSubmittedAnyMoreTheyFailInstead) {
  put_in_force();
  place_call(1);
  submit("a");
  sink_.take();
  requests_.leave_epoch(Status::error(Code::cancelled, "closed"), sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("fail a closed", "ended 1", "fail call 1 closed"));
  EXPECT_FALSE(requests_.has_outstanding());
}

TEST_F(OutstandingRequestsTest, WhatTheCoordinatorHasForgottenIsSentAgain) {
  submit("a");
  submit("x");
  send_call("call 1");
  sink_.take();
  requests_.count_labelled_entry();
  requests_.send_again({0, 1}, sink_);
  EXPECT_THAT(sink_.take(),
              ElementsAre(testing::HasSubstr("request a label 1"), testing::HasSubstr("request call 1 label 1")));
}

TEST_F(OutstandingRequestsTest, FailAllEndsWhatWaitsAnywhere) {
  put_in_force();
  submit("a");
  submit("x");
  place_call(1);
  place_call(2);
  sink_.take();
  requests_.fail_sent(Status::error(Code::peer_left, "left"), sink_);
  EXPECT_THAT(sink_.take(), ElementsAre(testing::HasSubstr("fail x")));
  requests_.fail_all(Status::error(Code::cancelled, "over"), sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("fail a over", "fail call 1 over", "fail call 2 over"));
  EXPECT_FALSE(requests_.has_outstanding());
}

TEST_F(OutstandingRequestsTest, ARetiredBucketTakesItsNamesAlong) {
  EXPECT_FALSE(requests_.prepare({0, true, "0", {{"a", tensor(100)}}})) << "its number is not new";
  submit("a");
  requests_.retire(0);
  EXPECT_TRUE(requests_.table().contains("a")) << "it is under way";
  EXPECT_FALSE(requests_.table().contains("b"));
  requests_.retire(17);
}

}  // namespace
}  // namespace ronde::agreement
