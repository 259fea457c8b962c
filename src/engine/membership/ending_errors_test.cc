#include "engine/membership/ending_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace ronde::engine {
namespace {

using testing::HasSubstr;

/// Members 0, 1 and 2, which are ranks 3, 5 and 8 of the job.
class EndingErrorsTest : public testing::Test {
 protected:
  EndingErrorsTest() {
    connections_.who.resize(3);
    for (int member = 0; member < 3; ++member) {
      connections_.who[static_cast<std::size_t>(member)].host = "node" + std::to_string(member);
      connections_.who[static_cast<std::size_t>(member)].pid = 100 + member;
    }
  }

  const Group group_{4, {3, 5, 8}};
  Connections connections_;  // without links
  MemberNames names_{group_, connections_};
};

TEST_F(EndingErrorsTest, WhoHasLeftIsToldByRank) {
  EXPECT_EQ(rank_has_left(8).failed_rank(), 8);
  EXPECT_EQ(rank_has_left(8).code(), Code::peer_left);
  EXPECT_EQ(coordinator_is_silent(names_, 1, "x").failed_rank(), 5);
}

TEST_F(EndingErrorsTest, WhatAMemberDidNotDoIsToldWithItsRank) {
  Request request;
  request.name = "x";
  const Ticket ticket(std::move(request));
  const Status left = ended_in_the_middle(names_, {1}, true).of(ticket);
  EXPECT_EQ(left.code(), Code::peer_left);
  EXPECT_EQ(left.failed_rank(), 5);
  EXPECT_THAT(left.message(), HasSubstr("'x': rank 5 (host node1, pid 101) has left in the middle of it"));
  const EndingErrors nobody = ended_in_the_middle(names_, {}, false);
  EXPECT_EQ(nobody.of(ticket).code(), Code::timed_out);
  EXPECT_EQ(nobody.of(ticket).failed_rank(), -1);
  EXPECT_THAT(nobody.of(ticket).message(), HasSubstr("'x': a rank agreed to it"));
  EXPECT_EQ(nobody.of_later_ones().code(), Code::timed_out);
}

TEST_F(EndingErrorsTest, OfADeathTheKindOfTheRequestIsToldToo) {
  Request request;
  request.name = "x";
  request.kind = OpKind::broadcast;
  const Ticket ticket(std::move(request));
  const EndingErrors errors = ended_by_death(names_, {1, 2});
  EXPECT_EQ(errors.of(ticket).code(), Code::peer_lost);
  EXPECT_EQ(errors.of(ticket).failed_rank(), 5);
  EXPECT_THAT(errors.of(ticket).message(),
              HasSubstr("rank 8 (host node2, pid 102) died while broadcast 'x' was under way"));
  EXPECT_THAT(errors.of_later_ones().message(), HasSubstr("unusable until shutdown and init"));
}

}  // namespace
}  // namespace ronde::engine
