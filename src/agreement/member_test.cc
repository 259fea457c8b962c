// Every cell of the table in docs/agreement.md, in its order. The columns are the modes; a row that cannot happen in a
// mode must be reported as a bug and change nothing.
#include "agreement/member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agreement/recording_sink_for_tests.h"

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Descriptor tensor(std::int64_t elements, std::int64_t offset = kNoOffset) {
  Descriptor descriptor;
  descriptor.tensors = {{DType::float32, {elements}}};
  descriptor.shared_offset = offset;
  return descriptor;
}

/// Rank 1 of 3. Bucket 0: "a" and "b", staged; 1: "c", inline; 2: "d", direct at 1024.
class MemberTest : public testing::Test {
 protected:
  MemberTest() {
    prepare({0, BucketKind::staged, 0, 4096, {{"a", tensor(100)}, {"b", tensor(100)}}});
    prepare({1, BucketKind::inlined, 128, kNoOffset, {{"c", tensor(1)}}});
    prepare({2, BucketKind::direct, 384, kNoOffset, {{"d", tensor(100, 1024)}}});
    sink_.take();
  }
  void prepare(const Bucket& bucket) { read(control::PrepareEntry{bucket}); }
  void read(control::Message entry) { member_.step(LogRead{std::move(entry)}, sink_); }
  void error(const std::string& name) { read(control::ErrorEntry{name, Code::timed_out, 2, "too late", {}}); }
  Lane submit(const std::string& name, Descriptor descriptor) {
    return member_.step(Submit{name, std::move(descriptor), 7}, sink_);
  }
  Lane submit_a() { return submit("a", tensor(100)); }
  Lane submit_b() { return submit("b", tensor(100)); }
  void freeze() { member_.step(LocalReason{Reason::abort, 0}, sink_); }
  void decide(std::vector<std::uint64_t> published) { member_.step(AllFrozen{published}, sink_); }
  void lose(std::size_t peer) {
    RankSet lost(3);
    lost[peer] = true;
    member_.step(Lost{lost}, sink_);
  }
  void all_quiet() { member_.step(AllQuiet{Status::error(Code::peer_lost, "rank 2 died")}, sink_); }

  /// Brings a fresh member to this mode; in frozen and drain "d" is published, in drain it is decided.
  void enter(Mode mode) {
    if (mode == Mode::learn) {
      return;
    }
    read(control::InstallEntry{1, {0, 1, 2}});
    if (mode == Mode::frozen || mode == Mode::drain) {
      submit("d", tensor(100, 1024));
      freeze();
    }
    if (mode == Mode::drain) {
      decide({0, 0, 1});
    }
    if (mode == Mode::failing || mode == Mode::failed) {
      lose(2);
    }
    if (mode == Mode::failed) {
      all_quiet();
    }
    ASSERT_EQ(member_.mode(), mode);
    sink_.take();
  }
  void expect_bug() {
    EXPECT_THAT(sink_.take(), testing::Contains(HasSubstr("bug")));
  }

  Member member_{Group{0, {0, 1, 2}}, 1};
  RecordingSink sink_;
};

class InMode : public MemberTest, public testing::WithParamInterface<Mode> {
 protected:
  bool breaking() const { return GetParam() == Mode::frozen || GetParam() == Mode::drain; }
};

const auto kWorking = testing::Values(Mode::learn, Mode::replay, Mode::frozen, Mode::drain);
const auto kBreak = testing::Values(Mode::frozen, Mode::drain);
const auto kOver = testing::Values(Mode::failing, Mode::failed);

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

TEST_F(MemberTest, InLearningAPlannedNameIsRequested) {
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

TEST_P(DuringABreak, APlannedSubmitIsHeld) {
  enter(GetParam());
  EXPECT_EQ(submit_a(), Lane::held);
  EXPECT_EQ(member_.step(SubmitPlace{1, 0, 0, kNever, kNoOffset}, sink_), Lane::held);
  EXPECT_EQ(submit("b", tensor(3)), Lane::held);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(MemberTest, AnotherDescriptorIsRequestedInLearningAndBreaksInReplay) {
  EXPECT_EQ(submit("a", tensor(3)), Lane::sent);
  read(control::ExecEntry{{{"a"}}});
  member_.step(Executed{"a"}, sink_);
  enter(Mode::replay);
  EXPECT_EQ(submit("a", tensor(3)), Lane::held);
  EXPECT_THAT(sink_.take(), ElementsAre("frozen 1"));
  EXPECT_EQ(member_.reason(), Reason::descriptor);
}

TEST_F(MemberTest, AnotherPlaceInTheHeapBreaksADirectBucketOnly) {
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
  EXPECT_THAT(sink_.take(), testing::UnorderedElementsAre("fail a rank 2 died", "fail new rank 2 died",
                                                          "fail d rank 2 died"));
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
  EXPECT_THAT(sink_.take(), IsEmpty()) << "in learning the coordinator acts";
  enter(Mode::replay);
  submit_a();
  sink_.take();
  member_.step(LocalReason{Reason::stall, 0}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("frozen 1"));
  freeze();
  EXPECT_THAT(sink_.take(), IsEmpty());
  decide({});
  EXPECT_THAT(sink_.take(), ElementsAre("request a label 1 until 7", "ended 1", "end 1 instances 0 missing b"));
  EXPECT_EQ(member_.mode(), Mode::learn);
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

TEST_F(MemberTest, JoinWaitsForItsOwnRequestsInLearning) {
  submit_a();
  sink_.take();
  member_.step(JoinCalled{}, sink_);
  EXPECT_THAT(sink_.take(), IsEmpty());
  read(control::ExecEntry{{{"a"}}});
  EXPECT_THAT(sink_.take(), ElementsAre("execute a"));
  member_.step(Executed{"a"}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("join"));
  EXPECT_EQ(submit_b(), Lane::failed) << "nothing is submitted after join";
  read(control::ExecEntry{{{"b", {}, kNoOffset, tensor(100)}}});
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

TEST_F(MemberTest, LeaveInLearningGoesOutAtOnceAndAnInstallThatCrossesItBreaks) {
  member_.step(LeaveCalled{}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("leave"));
  read(control::InstallEntry{1, {1}});
  EXPECT_THAT(sink_.take(), ElementsAre("install 1: 1", "frozen 1"));
}

// ---- Instances

TEST_P(WhileWorking, AnInstanceOfADirectBucket) {
  if (GetParam() == Mode::learn) {
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
  member_.step(AllPublished{2}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("reduce 2 1.1")) << "frozen or not (trap 3)";
  member_.step(AllPublished{2}, sink_);
  expect_bug();
  member_.step(Reduced{2}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("done 2 1.1"));
  member_.step(AllDone{2}, sink_);
  if (GetParam() == Mode::drain) {
    EXPECT_THAT(sink_.take(), ElementsAre("complete 2 instance 1", "ended 1", "end 1 instances 1"));
    EXPECT_EQ(member_.mode(), Mode::learn);
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
  member_.step(AllPublished{1}, sink_);
  member_.step(Reduced{1}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("reduce 1 1.1", "complete 1 instance 1"));
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
  member_.step(AllPublished{1}, sink_);
  EXPECT_THAT(sink_.take(), IsEmpty()) << "nothing new begins";
  member_.step(Reduced{2}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("done 2 1.1", "quiet 2"));
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

// ---- The log

TEST_P(WhileWorking, TheLogIsNotReadDuringABreak) {
  submit("x", tensor(1));
  submit("y", tensor(1));
  enter(GetParam());
  sink_.take();
  read(control::ExecEntry{{{"x"}}});
  error("y");
  if (!breaking()) {
    EXPECT_THAT(sink_.take(), ElementsAre("execute x", "fail y too late"));
    EXPECT_EQ(member_.lane("x"), Lane::executing);
    return;
  }
  EXPECT_THAT(sink_.take(), IsEmpty());
  if (GetParam() == Mode::frozen) {
    decide({0, 0, 0});
  } else {
    member_.step(AllPublished{2}, sink_);
    member_.step(Reduced{2}, sink_);
    member_.step(AllDone{2}, sink_);
  }
  const std::vector<std::string> done = sink_.take();
  ASSERT_GE(done.size(), 3u);
  EXPECT_THAT(std::vector(done.end() - 3, done.end()), ElementsAre(HasSubstr("end 1"), "execute x", "fail y too late"));
}

TEST_P(Afterwards, TheLogIsOver) {
  enter(GetParam());
  read(control::ExecEntry{{{"x"}}});
  error("a");
  read(control::InstallEntry{2, {0}});
  read(control::AddEntry{1, {0}});
  read(control::JoinDoneEntry{0});
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(MemberTest, AnErrorOfWhatIsStillExecutingIsOwedByTheNext) {
  submit_a();
  read(control::ExecEntry{{{"a"}}});
  error("a");
  member_.step(Executed{"a"}, sink_);
  EXPECT_EQ(submit_a(), Lane::failed);
}

TEST_F(MemberTest, InstallMovesWhatIsOutstanding) {
  submit_a();
  submit_b();
  submit("c", tensor(1));
  sink_.take();
  read(control::InstallEntry{1, {0, 1}});
  EXPECT_THAT(sink_.take(), ElementsAre("install 1: 0 1", "copy_in 0.0 instance 1", "copy_in 0.1 instance 1",
                                        "publish 0 1.1", "copy_in 1.0 instance 1", "publish 1 1.1"));
  EXPECT_EQ(member_.mode(), Mode::replay);
  EXPECT_EQ(member_.label(), 1u);
  EXPECT_FALSE(member_.is_waiting());
  EXPECT_EQ(member_.where("b")->place, 1u);
}

TEST_F(MemberTest, InstallOverAnotherDescriptorBreaksAtOnce) {
  submit("c", tensor(5));
  submit("d", tensor(100, 1024));
  sink_.take();
  read(control::InstallEntry{1, {1, 2}});
  EXPECT_THAT(sink_.take(), ElementsAre("install 1: 1 2", "copy_in 2.0 instance 1", "publish 2 1.1", "frozen 1"));
  EXPECT_EQ(member_.lane("c"), Lane::held);
}

TEST_F(MemberTest, InstallInReplayIsABugAndWaitsDuringABreak) {
  enter(Mode::replay);
  read(control::InstallEntry{2, {0}});
  expect_bug();
  freeze();
  sink_.take();
  read(control::InstallEntry{2, {0}});
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(MemberTest, ASecondEpochBeginsAtInstanceOneAgain) {
  enter(Mode::replay);
  freeze();
  decide({});
  read(control::InstallEntry{2, {1}});
  sink_.take();
  submit("c", tensor(1));
  EXPECT_THAT(sink_.take(), ElementsAre("copy_in 1.0 instance 1", "publish 1 2.1"));
  EXPECT_EQ(submit_a(), Lane::sent) << "bucket 0 is not in force in this epoch";
}

TEST_F(MemberTest, AddInReplayMovesWhatIsOutstandingAndLeavesTheRest) {
  read(control::InstallEntry{1, {1}});
  submit("c", tensor(1));
  submit_a();
  sink_.take();
  read(control::AddEntry{1, {0}});
  EXPECT_THAT(sink_.take(), ElementsAre("add 1: 0", "copy_in 0.0 instance 1"));
  EXPECT_TRUE(member_.is_published(1));
  submit_b();
  EXPECT_THAT(sink_.take(), ElementsAre("copy_in 0.1 instance 1", "publish 0 1.1"));
  read(control::AddEntry{7, {2}});
  expect_bug();
}

TEST_F(MemberTest, AddOfAnEpochThatIsOverHereSendsAgain) {
  read(control::InstallEntry{1, {1}});
  freeze();
  decide({});
  submit_a();
  submit("d", tensor(100, 1024));
  sink_.take();
  read(control::AddEntry{1, {0}});
  EXPECT_THAT(sink_.take(), ElementsAre("request a label 2 until 7"));
  EXPECT_EQ(member_.mode(), Mode::learn);
}

TEST_F(MemberTest, JoinDoneWithoutJoinIsABug) {
  read(control::JoinDoneEntry{0});
  expect_bug();
}

TEST_F(MemberTest, WhatIsForTheCoordinatorIsABug) {
  read(control::JoinMessage{});
  expect_bug();
}

TEST_F(MemberTest, ALeftPeerBreaksReplayAndEndsEverything) {
  enter(Mode::replay);
  submit_a();
  submit("new", tensor(1));
  sink_.take();
  read(control::LeftEntry{2});
  EXPECT_THAT(sink_.take(), ElementsAre("fail new 'new': rank 2 has left the job (it shut down or exited)", "frozen 1"));
  decide({});
  EXPECT_THAT(sink_.take(), ElementsAre("fail a rank 2 has left the job (it shut down or exited)", "ended 1",
                                        "end 1 instances 0"));
}

TEST_F(MemberTest, NamesThatComeOnceLeaveNothingBehind) {
  for (int i = 0; i < 100; ++i) {
    const std::string name = "once." + std::to_string(i);
    submit(name, tensor(1));
    read(control::ExecEntry{{{name}}});
    member_.step(Executed{name}, sink_);
  }
  error("late");
  submit("late", tensor(1));
  EXPECT_LE(member_.names_known(), 6u);
  EXPECT_EQ(submit_a(), Lane::sent);
  EXPECT_EQ(member_.lane("a"), Lane::sent);
}

TEST_F(MemberTest, PreparedBucketsAreKnownByTheirNumber) {
  prepare({5, BucketKind::ordered, 1024, kNoOffset, {{"z", tensor(9)}}});
  EXPECT_THAT(sink_.take(), ElementsAre("prepare 5"));
  EXPECT_EQ(member_.bucket(5).members[0].name, "z");
  prepare({5, BucketKind::ordered, 1024, kNoOffset, {{"z", tensor(9)}}});
  expect_bug();
  read(control::RetireEntry{{0, 5}});
  EXPECT_THAT(sink_.take(), ElementsAre("retire 0", "retire 5"));
}

// ---- Deaths

TEST_P(WhileWorking, ADeathStopsEverythingAndEverySurvivorIsWaitedFor) {
  submit("x", tensor(1));
  enter(GetParam());
  sink_.take();
  lose(2);
  EXPECT_EQ(member_.mode(), Mode::failing);
  EXPECT_THAT(sink_.take(), ElementsAre("quiet 2"));
  lose(2);
  EXPECT_THAT(sink_.take(), IsEmpty());
  lose(0);
  EXPECT_THAT(sink_.take(), ElementsAre("quiet 0 2")) << "said again with every death";
  all_quiet();
  EXPECT_THAT(sink_.take(), testing::Contains("fail x rank 2 died"));
  EXPECT_EQ(member_.mode(), Mode::failed);
  all_quiet();
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_P(WhileWorking, QuietWithoutADeathIsABug) {
  enter(GetParam());
  all_quiet();
  expect_bug();
}

TEST_F(MemberTest, AFailedRankStillSaysQuietAboutTheNextDeath) {
  enter(Mode::failed);
  lose(0);
  EXPECT_THAT(sink_.take(), ElementsAre("quiet 0 2"));
}

}  // namespace
}  // namespace ronde::agreement
