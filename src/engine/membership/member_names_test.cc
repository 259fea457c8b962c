#include "engine/membership/member_names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/testing/three_members.h"

namespace ronde::engine {
namespace {

class MemberNamesTest : public ThreeMembers {};

TEST_F(MemberNamesTest, CallersKnowAMemberByItsRankInTheJob) {
  EXPECT_EQ(names_.rank_of(2), 8);
  EXPECT_EQ(names_.text_of(1), "rank 5 (host node1, pid 101)");
  EXPECT_EQ(names_.text_of({1, 2}, " and "), "rank 5 (host node1, pid 101) and rank 8 (host node2, pid 102)");
  EXPECT_EQ(names_.text_of(std::vector<int>(), ", "), "a rank");
}

}  // namespace
}  // namespace ronde::engine
