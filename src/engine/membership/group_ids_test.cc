#include "engine/membership/group_ids.h"

#include <gtest/gtest.h>

#include <limits>

namespace ronde::engine {
namespace {

TEST(GroupIds, BeginAtOneAsHorovodsDo) {
  EXPECT_EQ(first_set_id(1), 1);
  EXPECT_EQ(first_set_id(0), 1);
  EXPECT_EQ(first_own_group_id(1), kFirstOwnGroup);
}

TEST(GroupIds, AreOfOneInit) {
  for (const std::uint64_t epoch : {1u, 2u, 3u, 1000u, 1024u}) {
    for (const std::int32_t id : {first_set_id(epoch), first_set_id(epoch) + kIdsOfInit - 2, first_own_group_id(epoch),
                                  first_own_group_id(epoch) + kIdsOfInit - 1}) {
      EXPECT_FALSE(is_of_another_init(id, epoch)) << id;
      EXPECT_TRUE(is_of_another_init(id, epoch + 1)) << id;
      EXPECT_EQ(epoch > 1, is_of_another_init(id, epoch - 1)) << id;
    }
  }
}

TEST(GroupIds, TellWhoHasMadeTheGroup) {
  for (const std::uint64_t epoch :
       {std::uint64_t{1}, std::uint64_t{2}, kInits, std::numeric_limits<std::uint64_t>::max()}) {
    EXPECT_FALSE(is_made_by_members(first_set_id(epoch) + kIdsOfInit - 2)) << epoch;
    EXPECT_TRUE(is_made_by_members(first_own_group_id(epoch))) << epoch;
    EXPECT_GT(first_own_group_id(epoch) + kIdsOfInit - 1, 0) << epoch;
  }
}

}  // namespace
}  // namespace ronde::engine
