// Every cell of the table in docs/agreement.md: the log and deaths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agreement/testing/member_fixture.h"

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ReadingWhileWorking : public InMode {};
INSTANTIATE_TEST_SUITE_P(Table, ReadingWhileWorking, kWorking);
class ReadingAfterwards : public InMode {};
INSTANTIATE_TEST_SUITE_P(Table, ReadingAfterwards, kOver);

using MemberLogTest = MemberTest;

// ---- The log

TEST_P(ReadingWhileWorking, TheLogIsNotReadDuringABreak) {
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

TEST_P(ReadingWhileWorking, AnotherTableHoldsFromItsPlaceInTheLog) {
  submit("x", tensor(1));
  submit("y", tensor(1));
  enter(GetParam());
  sink_.take();
  read(control::ExecEntry{{{"x"}}});
  read(control::TableEntry{{.one_shot = 77}});
  read(control::ExecEntry{{{"y"}}});
  if (GetParam() == Mode::frozen) {
    decide({0, 0, 0});
  } else if (GetParam() == Mode::drain) {
    member_.step(AllPublished{2}, sink_);
    member_.step(Reduced{2}, sink_);
    member_.step(AllDone{2}, sink_);
  }
  const std::vector<std::string> done = sink_.take();
  ASSERT_GE(done.size(), 3u);
  EXPECT_THAT(std::vector(done.end() - 3, done.end()), ElementsAre("execute x", "table one_shot 77", "execute y"));
}

TEST_P(ReadingAfterwards, TheLogIsOver) {
  enter(GetParam());
  read(control::ExecEntry{{{"x"}}});
  error("a");
  read(control::InstallEntry{2, {0}});
  read(control::AddEntry{1, {0}});
  read(control::JoinDoneEntry{0});
  read(control::TableEntry{});
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(MemberLogTest, AnErrorOfWhatIsStillExecutingIsOwedByTheNext) {
  submit_a();
  read(control::ExecEntry{{{"a"}}});
  error("a");
  member_.step(Executed{"a"}, sink_);
  EXPECT_EQ(submit_a(), Lane::failed);
}

TEST_F(MemberLogTest, InstallMovesWhatIsOutstanding) {
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

TEST_F(MemberLogTest, InstallOverAnotherDescriptorBreaksAtOnce) {
  submit("c", tensor(5));
  submit("d", tensor(100, 1024));
  sink_.take();
  read(control::InstallEntry{1, {1, 2}});
  EXPECT_THAT(sink_.take(), ElementsAre("install 1: 1 2", "copy_in 2.0 instance 1", "publish 2 1.1", "frozen 1"));
  EXPECT_EQ(member_.lane("c"), Lane::held);
}

TEST_F(MemberLogTest, InstallInReplayIsABugAndWaitsDuringABreak) {
  enter(Mode::replay);
  read(control::InstallEntry{2, {0}});
  expect_bug();
  freeze();
  sink_.take();
  read(control::InstallEntry{2, {0}});
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(MemberLogTest, ASecondEpochBeginsAtInstanceOneAgain) {
  enter(Mode::replay);
  freeze();
  decide({});
  read(control::InstallEntry{2, {1}});
  sink_.take();
  submit("c", tensor(1));
  EXPECT_THAT(sink_.take(), ElementsAre("copy_in 1.0 instance 1", "publish 1 2.1"));
  EXPECT_EQ(submit_a(), Lane::sent) << "bucket 0 is not in force in this epoch";
}

TEST_F(MemberLogTest, AddInReplayMovesWhatIsOutstandingAndLeavesTheRest) {
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

TEST_F(MemberLogTest, AddOfAnEpochThatIsOverHereSendsAgain) {
  read(control::InstallEntry{1, {1}});
  freeze();
  decide({});
  submit_a();
  submit("d", tensor(100, 1024));
  sink_.take();
  read(control::AddEntry{1, {0}});
  EXPECT_THAT(sink_.take(), ElementsAre("request a label 2 until 7"));
  EXPECT_EQ(member_.mode(), Mode::negotiate);
}

TEST_F(MemberLogTest, JoinDoneWithoutJoinIsABug) {
  read(control::JoinDoneEntry{0});
  expect_bug();
}

TEST_F(MemberLogTest, WhatIsForTheCoordinatorIsABug) {
  read(control::JoinMessage{});
  expect_bug();
}

TEST_F(MemberLogTest, ALeftPeerBreaksReplayAndEndsEverything) {
  enter(Mode::replay);
  submit_a();
  submit("new", tensor(1));
  sink_.take();
  read(control::LeftEntry{2});
  EXPECT_THAT(sink_.take(),
              ElementsAre("fail new 'new': rank 2 has left the job (it shut down or exited)", "frozen 1"));
  decide({});
  EXPECT_THAT(sink_.take(),
              ElementsAre("fail a rank 2 has left the job (it shut down or exited)", "ended 1", "end 1 instances 0"));
}

TEST_F(MemberLogTest, NamesThatComeOnceLeaveNothingBehind) {
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

TEST_F(MemberLogTest, PreparedBucketsAreKnownByTheirNumber) {
  prepare({5, true, "1024", {{"z", tensor(9)}}});
  EXPECT_THAT(sink_.take(), ElementsAre("prepare 5"));
  EXPECT_EQ(member_.bucket(5).members[0].name, "z");
  prepare({5, true, "1024", {{"z", tensor(9)}}});
  expect_bug();
  read(control::RetireEntry{{0, 5}});
  EXPECT_THAT(sink_.take(), ElementsAre("retire 0", "retire 5"));
}

// ---- Deaths

TEST_P(ReadingWhileWorking, ADeathStopsEverythingAndEverySurvivorIsWaitedFor) {
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

TEST_P(ReadingWhileWorking, QuietWithoutADeathIsABug) {
  enter(GetParam());
  all_quiet();
  expect_bug();
}

TEST_F(MemberLogTest, AFailedRankStillSaysQuietAboutTheNextDeath) {
  enter(Mode::failed);
  lose(0);
  EXPECT_THAT(sink_.take(), ElementsAre("quiet 0 2"));
}

}  // namespace
}  // namespace ronde::agreement
