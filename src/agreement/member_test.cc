// Every cell of the table in docs/agreement.md, in its order: what a rank does of its own and sees of its peers. The
// columns are the modes; a row that cannot happen in a mode must be reported as a bug and change nothing.
#include "agreement/member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agreement/testing/member_fixture.h"

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class WhileWorking : public InMode {};
INSTANTIATE_TEST_SUITE_P(Table, WhileWorking, kWorking);
class DuringABreak : public InMode {};
INSTANTIATE_TEST_SUITE_P(Table, DuringABreak, kBreak);
class Afterwards : public InMode {};
INSTANTIATE_TEST_SUITE_P(Table, Afterwards, kOver);

// ---- Submits

TEST_P(WhileWorking, AnOwedErrorFailsTheSubmit) {
  error("a");
  error("a");
  sink_.take();
  enter(GetParam());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(submit_a(), Lane::failed);
    EXPECT_THAT(sink_.take(), ElementsAre("fail a too late"));
  }
  EXPECT_NE(submit_a(), Lane::failed);
}

TEST_P(WhileWorking, WhatIsInNoBucketIsRequestedBeside) {
  enter(GetParam());
  EXPECT_EQ(submit("new", tensor(1)), Lane::sent);
  EXPECT_THAT(sink_.take(), ElementsAre("request new label " + std::to_string(member_.label()) + " until 7"));
  EXPECT_EQ(member_.mode(), GetParam());
}

TEST_F(MemberTest, InNegotiationAPlannedNameIsRequested) {
  EXPECT_EQ(submit_a(), Lane::sent);
  EXPECT_EQ(member_.step(SubmitPlace{2, 0, 0, 9, 1024}, sink_), Lane::sent);
  EXPECT_THAT(sink_.take(), ElementsAre("request a label 0 until 7", "request d label 0 until 9"));
}

TEST_F(MemberTest, InReplayTheLastPlacePublishes) {
  enter(Mode::replay);
  EXPECT_EQ(submit_a(), Lane::placed);
  EXPECT_TRUE(member_.is_half_full(0));
  EXPECT_THAT(member_.missing(0), ElementsAre("b"));
  EXPECT_THAT(sink_.take(), ElementsAre("copy_in 0.0 instance 1"));
  EXPECT_EQ(member_.step(SubmitPlace{0, 1, member_.next_flag(0), kNever, kNoOffset}, sink_), Lane::placed);
  EXPECT_THAT(sink_.take(), ElementsAre("publish 0 1.1")) << "what was copied already is not copied again";
  EXPECT_TRUE(member_.is_published(0));
}

TEST_F(MemberTest, ACopyMadeForAnotherEpochIsMadeAgain) {
  enter(Mode::replay);
  EXPECT_EQ(member_.step(SubmitPlace{1, 0, make_flag(7, 1), kNever, kNoOffset}, sink_), Lane::placed);
  EXPECT_THAT(sink_.take(), ElementsAre("copy_in 1.0 instance 1", "publish 1 1.1"));
}

TEST_F(MemberTest, ACopyMadeForAnotherBucketIsMadeAgain) {
  prepare({3, true, "1024", {{"a", tensor(100)}}});
  read(control::InstallEntry{1, {3}});
  sink_.take();
  EXPECT_EQ(member_.next_flag(0), member_.next_flag(3));
  EXPECT_EQ(member_.step(SubmitPlace{0, 0, member_.next_flag(0), kNever, kNoOffset}, sink_), Lane::placed);
  EXPECT_THAT(sink_.take(), ElementsAre("copy_in 3.0 instance 1", "publish 3 1.1"));
}

TEST_P(DuringABreak, APlannedSubmitIsHeld) {
  enter(GetParam());
  EXPECT_EQ(submit_a(), Lane::held);
  EXPECT_EQ(member_.step(SubmitPlace{1, 0, 0, kNever, kNoOffset}, sink_), Lane::held);
  EXPECT_EQ(submit("b", tensor(3)), Lane::held);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(MemberTest, AnotherDescriptorIsRequestedInNegotiationAndBreaksInReplay) {
  EXPECT_EQ(submit("a", tensor(3)), Lane::sent);
  read(control::ExecEntry{{{"a"}}});
  member_.step(Executed{"a"}, sink_);
  enter(Mode::replay);
  EXPECT_EQ(submit("a", tensor(3)), Lane::held);
  EXPECT_THAT(sink_.take(), ElementsAre("frozen 1"));
  EXPECT_EQ(member_.reason(), Reason::descriptor);
}

TEST_F(MemberTest, AnotherPlaceInMemoryBreaksADirectBucketOnly) {
  enter(Mode::replay);
  EXPECT_EQ(submit("c", tensor(1, 8192)), Lane::placed);
  EXPECT_EQ(submit("d", tensor(100, 2048)), Lane::held);
  EXPECT_EQ(member_.mode(), Mode::frozen);
}

TEST_F(MemberTest, FailingHoldsSubmitsUntilTheErrorMayBeTold) {
  error("a");
  enter(Mode::failing);
  EXPECT_EQ(submit_a(), Lane::held) << "an owed error too";
  EXPECT_EQ(submit("new", tensor(1)), Lane::held);
  EXPECT_EQ(submit("d", tensor(5)), Lane::held);
  EXPECT_THAT(sink_.take(), IsEmpty());
  all_quiet();
  EXPECT_THAT(sink_.take(),
              testing::UnorderedElementsAre("fail a rank 2 died", "fail new rank 2 died", "fail d rank 2 died"));
  EXPECT_EQ(submit_a(), Lane::failed);
  EXPECT_THAT(sink_.take(), ElementsAre("fail a rank 2 died"));
}

TEST_P(WhileWorking, TwoRequestsOfOneNameAtATimeAreABug) {
  enter(GetParam());
  submit_a();
  sink_.take();
  submit_a();
  expect_bug();
}

// ---- Reasons of its own

TEST_F(MemberTest, AReasonToBreakFreezesReplayOnly) {
  freeze();
  EXPECT_THAT(sink_.take(), IsEmpty()) << "in negotiation the coordinator acts";
  enter(Mode::replay);
  submit_a();
  sink_.take();
  member_.step(LocalReason{Reason::stall, 0}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("frozen 1"));
  freeze();
  EXPECT_THAT(sink_.take(), IsEmpty());
  decide({});
  EXPECT_THAT(sink_.take(), ElementsAre("request a label 1 until 7", "ended 1", "end 1 instances 0 missing b"));
  EXPECT_EQ(member_.mode(), Mode::negotiate);
}

TEST_P(Afterwards, AReasonToBreakIsNoneAnyMore) {
  enter(GetParam());
  freeze();
  member_.step(PeerFrozen{1}, sink_);
  decide({});
  member_.step(JoinCalled{}, sink_);
  member_.step(LeaveCalled{}, sink_);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

// ---- Join and leave

TEST_F(MemberTest, JoinWaitsForItsOwnRequestsInNegotiation) {
  submit_a();
  sink_.take();
  member_.step(JoinCalled{}, sink_);
  EXPECT_THAT(sink_.take(), IsEmpty());
  read(control::ExecEntry{{{"a"}}});
  EXPECT_THAT(sink_.take(), ElementsAre("execute a"));
  member_.step(Executed{"a"}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("join"));
  EXPECT_EQ(submit_b(), Lane::failed) << "nothing is submitted after join";
  read(control::ExecEntry{{{"b", {}, {}, tensor(100)}}});
  EXPECT_THAT(sink_.take(), ElementsAre(HasSubstr("fail b"), "execute b")) << "it takes part for the others";
  read(control::JoinDoneEntry{2});
  EXPECT_THAT(sink_.take(), ElementsAre("join_done 2"));
  EXPECT_EQ(submit_b(), Lane::sent);
}

TEST_F(MemberTest, JoinBreaksReplay) {
  enter(Mode::replay);
  member_.step(JoinCalled{}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("frozen 1"));
  decide({});
  EXPECT_THAT(sink_.take(), ElementsAre("ended 1", "end 1 instances 0", "join"));
}

TEST_P(DuringABreak, JoinWaitsForItsEnd) {
  enter(GetParam());
  member_.step(JoinCalled{}, sink_);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(MemberTest, AnInstallThatCrossesJoinBreaksAtOnce) {
  member_.step(JoinCalled{}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("join"));
  read(control::InstallEntry{1, {0}});
  EXPECT_THAT(sink_.take(), ElementsAre("install 1: 0", "frozen 1"));
  decide({});
  EXPECT_THAT(sink_.take(), ElementsAre("ended 1", "end 1 instances 0")) << "JOIN is not said twice";
}

TEST_F(MemberTest, AnErrorDoesNotConcernWhoHasJoined) {
  member_.step(JoinCalled{}, sink_);
  read(control::ErrorEntry{"a", Code::timed_out, 0, "late", {1}});
  EXPECT_EQ(member_.label(), 1u);
  EXPECT_EQ(member_.owed("a"), 0u);
}

TEST_F(MemberTest, NothingIsOwedAnyMoreWhenAllHaveJoined) {
  read(control::ErrorEntry{"a", Code::timed_out, 0, "late", {}});
  read(control::ErrorEntry{"never.again", Code::timed_out, 0, "late", {}});
  EXPECT_EQ(member_.owed("a"), 1u);
  const std::size_t known = member_.names_known();
  member_.step(JoinCalled{}, sink_);
  EXPECT_EQ(member_.owed("a"), 1u) << "the others may still be in the middle of theirs";
  read(control::JoinDoneEntry{1});
  EXPECT_EQ(member_.owed("a"), 0u);
  EXPECT_LT(member_.names_known(), known);
  EXPECT_EQ(submit_a(), Lane::sent);
}

TEST_F(MemberTest, NoErrorIsOwedToWhoHasRefusedTheCall) {
  read(control::ErrorEntry{"noname.0.1", Code::mismatch, 0, "refused there", {}});
  EXPECT_EQ(member_.owed("noname.0.1"), 1u);
  member_.step(Refused{"noname.0.1"}, sink_);
  EXPECT_EQ(member_.owed("noname.0.1"), 0u) << "read before";
  member_.step(Refused{"noname.0.2"}, sink_);
  for (int i = 0; i < 2; ++i) {
    read(control::ErrorEntry{"noname.0.2", Code::mismatch, 0, "refused there", {}});
    EXPECT_EQ(member_.owed("noname.0.2"), 0u) << "read after";
  }
  EXPECT_EQ(member_.label(), 3u);
}

TEST_F(MemberTest, LeaveGoesOutAfterTheEpoch) {
  enter(Mode::replay);
  submit_a();
  sink_.take();
  member_.step(LeaveCalled{}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("frozen 1"));
  decide({});
  EXPECT_THAT(sink_.take(), ElementsAre("request a label 1 until 7", "ended 1", "end 1 instances 0", "leave"));
  member_.step(LeaveCalled{}, sink_);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(MemberTest, LeaveInNegotiationGoesOutAtOnceAndAnInstallThatCrossesItBreaks) {
  member_.step(LeaveCalled{}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("leave"));
  read(control::InstallEntry{1, {1}});
  EXPECT_THAT(sink_.take(), ElementsAre("install 1: 1", "frozen 1"));
}

// ---- Instances

TEST_P(WhileWorking, AnInstanceOfADirectBucket) {
  if (GetParam() == Mode::negotiate) {
    member_.step(AllPublished{2}, sink_);
    expect_bug();
    member_.step(Reduced{2}, sink_);
    expect_bug();
    member_.step(AllDone{2}, sink_);
    expect_bug();
    return;
  }
  enter(GetParam());
  if (GetParam() == Mode::replay) {
    submit("d", tensor(100, 1024));
    EXPECT_THAT(sink_.take(), ElementsAre("copy_in 2.0 instance 1", "publish 2 1.1"));
  }
  member_.step(AllDone{2}, sink_);
  expect_bug();
  EXPECT_TRUE(member_.step(AllPublished{2}, sink_)) << "frozen or not (trap 3)";
  EXPECT_THAT(sink_.take(), IsEmpty());
  EXPECT_FALSE(member_.step(AllPublished{2}, sink_));
  expect_bug();
  member_.step(Reduced{2}, sink_);
  EXPECT_THAT(sink_.take(), IsEmpty()) << "not before all have done it";
  member_.step(AllDone{2}, sink_);
  if (GetParam() == Mode::drain) {
    EXPECT_THAT(sink_.take(), ElementsAre("complete 2 instance 1", "ended 1", "end 1 instances 1"));
    EXPECT_EQ(member_.mode(), Mode::negotiate);
  } else {
    EXPECT_THAT(sink_.take(), ElementsAre("complete 2 instance 1"));
    EXPECT_EQ(member_.instances(2), 1u);
  }
  EXPECT_FALSE(member_.has_outstanding());
}

TEST_F(MemberTest, AnInlineBucketHasNoDoneFlag) {
  enter(Mode::replay);
  submit("c", tensor(1));
  sink_.take();
  EXPECT_TRUE(member_.step(AllPublished{1}, sink_));
  member_.step(Reduced{1}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("complete 1 instance 1"));
  submit("c", tensor(1));
  EXPECT_THAT(sink_.take(), ElementsAre("copy_in 1.0 instance 2", "publish 1 1.2"));
}

TEST_F(MemberTest, ASliceThatIsUnderWayAtADeathEndsBeforeQuiet) {
  enter(Mode::replay);
  submit("d", tensor(100, 1024));
  submit("c", tensor(1));
  member_.step(AllPublished{2}, sink_);
  sink_.take();
  lose(2);
  EXPECT_THAT(sink_.take(), IsEmpty());
  all_quiet();
  expect_bug();
  EXPECT_FALSE(member_.step(AllPublished{1}, sink_)) << "nothing new begins";
  EXPECT_THAT(sink_.take(), IsEmpty());
  member_.step(Reduced{2}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("quiet 2"));
  member_.step(AllDone{2}, sink_);
  EXPECT_THAT(sink_.take(), IsEmpty()) << "nothing is completed after a death";
  all_quiet();
  EXPECT_THAT(sink_.take(), testing::UnorderedElementsAre("fail c rank 2 died", "fail d rank 2 died"));
  member_.step(Reduced{2}, sink_);
  expect_bug();
}

// ---- Breaks

TEST_F(MemberTest, AFrozenPeer) {
  member_.step(PeerFrozen{1}, sink_);
  EXPECT_THAT(sink_.take(), IsEmpty()) << "its INSTALL is on its way";
  enter(Mode::replay);
  member_.step(PeerFrozen{2}, sink_);
  expect_bug();
  member_.step(PeerFrozen{0}, sink_);
  EXPECT_EQ(member_.mode(), Mode::replay) << "of an older epoch";
  member_.step(PeerFrozen{1}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("frozen 1"));
  EXPECT_EQ(member_.reason(), Reason::peer);
  member_.step(PeerFrozen{1}, sink_);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(MemberTest, ADecisionOutsideABreakIsABug) {
  decide({});
  expect_bug();
  enter(Mode::replay);
  decide({});
  expect_bug();
}

TEST_F(MemberTest, ASecondDecisionIsABug) {
  enter(Mode::drain);
  decide({0, 0, 1});
  expect_bug();
}

TEST_F(MemberTest, ADecisionThatCannotBeIsABug) {
  enter(Mode::frozen);
  decide({1, 0, 1});
  expect_bug();
}

TEST_F(MemberTest, WhatIsCancelledOrHeldGoesToTheCoordinatorBeforeEnd) {
  enter(Mode::replay);
  submit_a();
  submit_b();
  submit("d", tensor(100, 1024));
  freeze();
  submit("c", tensor(9));
  sink_.take();
  decide({0, 0, 1});
  EXPECT_THAT(sink_.take(), IsEmpty());
  member_.step(AllPublished{2}, sink_);
  member_.step(Reduced{2}, sink_);
  sink_.take();
  member_.step(AllDone{2}, sink_);
  EXPECT_THAT(sink_.take(),
              ElementsAre("complete 2 instance 1", "request a label 1 until 7", "request b label 1 until 7",
                          "request c label 1 until 7", "ended 1", "end 1 instances 1"));
  EXPECT_THAT(member_.in_force(), IsEmpty());
  EXPECT_FALSE(member_.where("a"));
}

TEST_F(MemberTest, ACounterAboutToOverflowBreaks) {
  static_assert(instance_in(make_flag(3, kMaxInstance), 3) == kMaxInstance && kMaxEpoch > (1u << 23));
  EXPECT_EQ(instance_in(make_flag(3, 5), 4), 0u);
  EXPECT_TRUE(reached(make_flag(3, 6), make_flag(3, 5)));
  EXPECT_FALSE(reached(make_flag(4, 6), make_flag(3, 5)));
}

}  // namespace
}  // namespace ronde::agreement
