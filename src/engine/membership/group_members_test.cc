#include "engine/membership/group_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/membership/ending_errors.h"

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// What the test says of the others.
class SaidPeers final : public transport::Peers {
 public:
  explicit SaidPeers(int size) : departures(static_cast<std::size_t>(size)), gave_up(static_cast<std::size_t>(size)) {}
  int self() const override { return 0; }
  int size() const override { return static_cast<int>(departures.size()); }
  void say_departed(transport::Departure) override {}
  void say_frozen(std::uint32_t, std::uint32_t) override {}
  void say_quiet(const std::vector<int>&) override {}
  void say_given_up() override {}
  void wake(int) override {}
  void wake_others() override {}
  transport::Departure departure(int member) const override { return departures[static_cast<std::size_t>(member)]; }
  std::uint32_t frozen_in(int) const override { return 0; }
  bool is_quiet_about(int, int) const override { return false; }
  bool has_given_up(int member) const override { return gave_up[static_cast<std::size_t>(member)]; }
  bool has_any_given_up() const override { return false; }

  std::vector<transport::Departure> departures;
  std::vector<bool> gave_up;
};

/// Members 0, 1 and 2, which are ranks 3, 5 and 8 of the job.
class GroupMembersTest : public testing::Test {
 protected:
  GroupMembersTest()
      : peers_(*new SaidPeers(3)),
        connections_(made(std::unique_ptr<transport::Peers>(&peers_))),
        deaths_(peers_),
        members_(group_, connections_, deaths_) {}

  static Connections made(std::unique_ptr<transport::Peers> peers) {
    Connections connections;
    connections.peers = std::move(peers);
    connections.who.resize(3);
    for (int member = 0; member < 3; ++member) {
      connections.who[static_cast<std::size_t>(member)].host = "node" + std::to_string(member);
      connections.who[static_cast<std::size_t>(member)].pid = 100 + member;
    }
    return connections;
  }

  const Group group_{4, {3, 5, 8}};
  SaidPeers& peers_;  // of connections_
  Connections connections_;
  Deaths deaths_;
  GroupMembers members_;
};

TEST_F(GroupMembersTest, CallersKnowAMemberByItsRankInTheJob) {
  EXPECT_EQ(members_.rank_of(2), 8);
  EXPECT_EQ(members_.text_of(1), "rank 5 (host node1, pid 101)");
  EXPECT_EQ(members_.text_of({1, 2}, " and "), "rank 5 (host node1, pid 101) and rank 8 (host node2, pid 102)");
  EXPECT_EQ(members_.text_of(std::vector<int>(), ", "), "a rank");
  EXPECT_EQ(members_.left_job(2).failed_rank(), 8);
  EXPECT_EQ(members_.left_job(2).code(), Code::peer_left);
}

TEST_F(GroupMembersTest, OneHasGoneWhenNothingMoreCanComeOfIt) {
  EXPECT_THAT(members_.gone(), IsEmpty());
  peers_.departures[1] = transport::Departure::in_order;
  EXPECT_FALSE(members_.has_gone(1)) << "it still serves the others";
  deaths_.notice(1);
  EXPECT_TRUE(members_.has_gone(1));
  EXPECT_FALSE(deaths_.any()) << "no loss";
  peers_.departures[2] = transport::Departure::final;
  EXPECT_THAT(members_.gone(), ElementsAre(1, 2));
  peers_.departures[0] = transport::Departure::final;
  EXPECT_THAT(members_.gone(), ElementsAre(1, 2)) << "this one is no other";
}

TEST_F(GroupMembersTest, MemoryIsSafeWhenEachOtherHasGoneDiedStoppedOrGivenUp) {
  EXPECT_TRUE(members_.may_any_touch());
  peers_.gave_up[1] = true;
  EXPECT_THAT(members_.given_up(), ElementsAre(1));
  EXPECT_TRUE(members_.may_any_touch()) << "member 2";
  deaths_.notice(2);
  EXPECT_FALSE(members_.may_any_touch());
}

TEST_F(GroupMembersTest, WhatAMemberDidNotDoIsToldWithItsRank) {
  Request request;
  request.name = "x";
  const Ticket ticket(std::move(request));
  const Status left = ended_in_the_middle(members_, {1}, true).of(ticket);
  EXPECT_EQ(left.code(), Code::peer_left);
  EXPECT_EQ(left.failed_rank(), 5);
  EXPECT_THAT(left.message(), HasSubstr("'x': rank 5 (host node1, pid 101) has left in the middle of it"));
  const EndingErrors nobody = ended_in_the_middle(members_, {}, false);
  EXPECT_EQ(nobody.of(ticket).code(), Code::timed_out);
  EXPECT_EQ(nobody.of(ticket).failed_rank(), -1);
  EXPECT_THAT(nobody.of(ticket).message(), HasSubstr("'x': a rank agreed to it"));
  EXPECT_EQ(nobody.of_later_ones().code(), Code::timed_out);
}

TEST_F(GroupMembersTest, OfADeathTheKindOfTheRequestIsToldToo) {
  Request request;
  request.name = "x";
  request.kind = OpKind::broadcast;
  const Ticket ticket(std::move(request));
  const EndingErrors errors = ended_by_death(members_, {1, 2});
  EXPECT_EQ(errors.of(ticket).code(), Code::peer_lost);
  EXPECT_EQ(errors.of(ticket).failed_rank(), 5);
  EXPECT_THAT(errors.of(ticket).message(),
              HasSubstr("rank 8 (host node2, pid 102) died while broadcast 'x' was under way"));
  EXPECT_THAT(errors.of_later_ones().message(), HasSubstr("unusable until shutdown and init"));
}

}  // namespace
}  // namespace ronde::engine
