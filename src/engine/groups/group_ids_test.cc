#include "engine/groups/group_ids.h"

#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

/// All ranks of a job make a set.
std::int32_t make(std::vector<GroupIds>& ranks, const std::vector<int>& members) {
  std::vector<GroupIds::Proposal> proposals;
  for (const GroupIds& each : ranks) {
    proposals.push_back(each.propose(members));
  }
  const std::int32_t id = GroupIds::agreed(proposals);
  for (GroupIds& each : ranks) {
    each.take(id, members);
  }
  return id;
}

void begin_job(std::vector<GroupIds>& ranks) {
  for (GroupIds& each : ranks) {
    each.begin_job();
  }
}

TEST(GroupIds, CountFromOneAsHorovodsDo) {
  std::vector<GroupIds> ranks(3);
  EXPECT_EQ(make(ranks, {0, 1}), 1);
  EXPECT_EQ(make(ranks, {1, 2}), 2);
  EXPECT_EQ(make(ranks, {0}), 3);
}

TEST(GroupIds, ASetHasItsIdAgainInTheNextJobWhateverTheOrder) {
  std::vector<GroupIds> ranks(2);
  EXPECT_EQ(make(ranks, {0}), 1);
  EXPECT_EQ(make(ranks, {1}), 2);
  begin_job(ranks);
  EXPECT_EQ(make(ranks, {1}), 2);
  EXPECT_EQ(make(ranks, {0, 1}), 3) << "1 may still be kept by a program";
  EXPECT_EQ(make(ranks, {0}), 1);
}

TEST(GroupIds, WithinAJobNoneIsGivenOutTwice) {
  std::vector<GroupIds> ranks(2);
  EXPECT_EQ(make(ranks, {0, 1}), 1);
  EXPECT_EQ(make(ranks, {0, 1}), 2) << "a set of the same ranks, or the same that was removed";
  begin_job(ranks);
  EXPECT_EQ(make(ranks, {0, 1}), 2) << "the last one";
  EXPECT_EQ(make(ranks, {0, 1}), 3);
}

TEST(GroupIds, RanksThatHaveHadOtherJobsTakeOneThatNoneHasGivenOut) {
  std::vector<GroupIds> ranks(2);
  ranks[0].take(1, {0});  // each has been alone in a job before
  ranks[1].take(1, {0});
  ranks[1].take(2, {1});
  begin_job(ranks);
  EXPECT_EQ(make(ranks, {1}), 3) << "rank 0 does not know that rank 1 has called these ranks 2";
  EXPECT_EQ(make(ranks, {0}), 1) << "both know it";
  EXPECT_EQ(make(ranks, {0, 1}), 4);
}

TEST(GroupIds, OfGroupsThatMembersMakeAreNeverGivenOutAgain) {
  GroupIds ids;
  EXPECT_EQ(ids.take_own(), kFirstOwnGroup);
  ids.begin_job();
  EXPECT_EQ(ids.take_own(), kFirstOwnGroup + 1);
}

TEST(GroupIds, OneRankAgreesWithItself) {
  std::vector<GroupIds> ranks(1);
  EXPECT_EQ(make(ranks, {0}), 1);
  begin_job(ranks);
  EXPECT_EQ(make(ranks, {0}), 1);
}

}  // namespace
}  // namespace ronde::engine
