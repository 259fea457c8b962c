#include "engine/membership/member_names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ronde::engine {
namespace {

/// Members 0, 1 and 2, which are ranks 3, 5 and 8 of the job.
class MemberNamesTest : public testing::Test {
 protected:
  MemberNamesTest() {
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

TEST_F(MemberNamesTest, CallersKnowAMemberByItsRankInTheJob) {
  EXPECT_EQ(names_.rank_of(2), 8);
  EXPECT_EQ(names_.text_of(1), "rank 5 (host node1, pid 101)");
  EXPECT_EQ(names_.text_of({1, 2}, " and "), "rank 5 (host node1, pid 101) and rank 8 (host node2, pid 102)");
  EXPECT_EQ(names_.text_of(std::vector<int>(), ", "), "a rank");
}

}  // namespace
}  // namespace ronde::engine
