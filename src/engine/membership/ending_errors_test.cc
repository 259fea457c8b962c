#include "engine/membership/ending_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/testing/three_members.h"

namespace ronde::engine {
namespace {

using testing::HasSubstr;

class EndingErrorsTest : public ThreeMembers {};

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
