// The member's rows of the table in an ordered group, where they are others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agreement/testing/member_fixture.h"

namespace ronde::agreement {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class OrderedMemberTest : public MemberTest {
 protected:
  OrderedMemberTest() {
    control::SettingsEntry settings;
    settings.ordered = true;
    read(settings);
    read(control::InstallEntry{1, {0, 1, 2}});
    sink_.take();
  }
  void launch(std::vector<std::uint32_t> buckets) { read(control::LaunchEntry{1, std::move(buckets)}); }
  void finish(std::uint32_t bucket) {
    member_.step(AllPublished{bucket}, sink_);
    member_.step(Reduced{bucket}, sink_);
    if (bucket != 1) {  // an inline bucket is complete
      member_.step(AllDone{bucket}, sink_);
    }
  }
  void publish_c_and_d() {
    submit("d", tensor(100, 1024));
    submit("c", tensor(1));
    sink_.take();
  }
};

TEST_F(OrderedMemberTest, TheLogLaunches) {
  publish_c_and_d();
  EXPECT_FALSE(member_.is_launched(1));
  launch({1, 2});
  EXPECT_THAT(sink_.take(), ElementsAre("launch 1", "launch 2"));
  EXPECT_TRUE(member_.is_launched(1));
  finish(2);
  finish(1);
  EXPECT_THAT(sink_.take(), ElementsAre("complete 2 instance 1", "complete 1 instance 1"));
  EXPECT_FALSE(member_.is_launched(1));
}

TEST_F(OrderedMemberTest, WhatIsLaunchedBeforeBreakIsFinishedAndNothingElse) {
  publish_c_and_d();
  launch({2});
  sink_.take();
  read(control::BreakEntry{1});
  EXPECT_EQ(member_.mode(), Mode::drain);
  EXPECT_TRUE(member_.is_decided(2));
  EXPECT_FALSE(member_.is_decided(1));
  EXPECT_THAT(sink_.take(), IsEmpty());
  finish(2);
  EXPECT_EQ(member_.mode(), Mode::negotiate);
  EXPECT_THAT(sink_.take(),
              ElementsAre("complete 2 instance 1", HasSubstr("request c"), "ended 1", HasSubstr("end 1")));
}

TEST_F(OrderedMemberTest, ABreakOfNothingIsOverAtOnce) {
  publish_c_and_d();
  read(control::BreakEntry{1});
  EXPECT_EQ(member_.mode(), Mode::negotiate);
}

TEST_F(OrderedMemberTest, WhoHasAReasonSaysSoAndReadsOn) {
  publish_c_and_d();
  freeze();
  EXPECT_EQ(member_.mode(), Mode::frozen);
  EXPECT_THAT(sink_.take(), ElementsAre("send frozen 1"));
  freeze();
  EXPECT_THAT(sink_.take(), IsEmpty()) << "once an epoch";
  submit_a();
  submit_b();
  EXPECT_THAT(sink_.take(), IsEmpty()) << "held: nothing more is published";
  launch({1});
  read(control::ExecEntry{});
  EXPECT_THAT(sink_.take(), ElementsAre("launch 1", "execute"));
  finish(1);
  EXPECT_THAT(sink_.take(), ElementsAre("complete 1 instance 1"));
  read(control::BreakEntry{1});
  EXPECT_EQ(member_.mode(), Mode::negotiate);
  EXPECT_EQ(member_.lane("a"), Lane::sent);
  EXPECT_EQ(member_.lane("d"), Lane::sent);
}

// Behind BREAK the log waits, as in every break.
TEST_F(OrderedMemberTest, TheLogIsNotReadBehindBreak) {
  publish_c_and_d();
  launch({2});
  read(control::BreakEntry{1});
  sink_.take();
  error("d");
  EXPECT_THAT(sink_.take(), IsEmpty());
  finish(2);
  EXPECT_THAT(sink_.take(), Not(Contains(HasSubstr("fail"))));
  EXPECT_EQ(member_.owed("d"), 1u);
}

// It is frozen, so it fills no bucket that is added: its requests go to the coordinator again, which forgot them.
TEST_F(OrderedMemberTest, AddIsReadWhileFrozen) {
  submit("e", tensor(100));
  prepare({3, true, "512", {{"e", tensor(100)}}});
  freeze();
  sink_.take();
  read(control::AddEntry{1, {3}});
  EXPECT_THAT(sink_.take(), ElementsAre(HasSubstr("request e label 2")));
}

// All have joined, and only then read an INSTALL, which had crossed their JOIN; each freezes, and reads on.
TEST_F(OrderedMemberTest, AJoinReturnsWhileItIsFrozen) {
  read(control::BreakEntry{1});
  member_.step(JoinCalled{}, sink_);
  read(control::InstallEntry{2, {0}});
  EXPECT_EQ(member_.mode(), Mode::frozen);
  sink_.take();
  read(control::JoinDoneEntry{0});
  EXPECT_THAT(sink_.take(), ElementsAre("join_done 0"));
  EXPECT_EQ(submit_a(), Lane::held);
  read(control::BreakEntry{2});
  EXPECT_EQ(member_.mode(), Mode::negotiate);
  EXPECT_EQ(member_.lane("a"), Lane::sent);
}

TEST_F(OrderedMemberTest, WhatCannotBeIsABug) {
  launch({1});
  expect_bug();  // not published
  publish_c_and_d();
  launch({1});
  launch({1});
  expect_bug();  // twice
  read(control::LaunchEntry{2, {2}});
  expect_bug();
  read(control::BreakEntry{2});
  expect_bug();
  EXPECT_EQ(member_.mode(), Mode::replay);
}

TEST_F(OrderedMemberTest, ADeathIsAsInEveryGroup) {
  publish_c_and_d();
  launch({2});
  member_.step(AllPublished{2}, sink_);
  sink_.take();
  lose(2);
  EXPECT_EQ(member_.mode(), Mode::failing);
  EXPECT_THAT(sink_.take(), IsEmpty());
  member_.step(Reduced{2}, sink_);
  EXPECT_THAT(sink_.take(), ElementsAre("quiet 2"));
  launch({1});
  read(control::BreakEntry{1});
  EXPECT_THAT(sink_.take(), IsEmpty());
}

}  // namespace
}  // namespace ronde::agreement
