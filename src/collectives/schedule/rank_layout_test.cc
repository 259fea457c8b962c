#include "collectives/schedule/rank_layout.h"

#include <gtest/gtest.h>

namespace ronde::collectives {
namespace {

TEST(RankLayout, HostsAreInTheOrderOfTheirLowestRanks) {
  const RankLayout layout({0, 1, 0, 1, 4});
  EXPECT_EQ(layout.ranks(), 5);
  EXPECT_EQ(layout.hosts(), 3);
  EXPECT_EQ(layout.ranks_of(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(layout.ranks_of(1), (std::vector<int>{1, 3}));
  EXPECT_EQ(layout.ranks_of(2), (std::vector<int>{4}));
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    EXPECT_EQ(layout.ranks_of(layout.host_of(rank))[static_cast<std::size_t>(layout.local(rank))], rank);
  }
  EXPECT_EQ(layout.fewest(), 1u);
  EXPECT_EQ(layout.most(), 2u);
  EXPECT_FALSE(layout.is_in_order());
  EXPECT_TRUE(layout.is_hierarchy());
}

TEST(RankLayout, InOrderIfNoHostBeginsBeforeTheLastHasEnded) {
  EXPECT_TRUE(RankLayout({0, 0, 2, 2}).is_in_order());
  EXPECT_TRUE(RankLayout({0, 0, 2, 3, 3}).is_in_order());
  EXPECT_FALSE(RankLayout({0, 1, 1, 0}).is_in_order());
}

TEST(RankLayout, OneHostOrRanksApartAreNoHierarchy) {
  EXPECT_FALSE(RankLayout({0, 0, 0}).is_hierarchy());
  EXPECT_FALSE(RankLayout({0}).is_hierarchy());
  const RankLayout apart = RankLayout::apart(3);
  EXPECT_FALSE(apart.is_hierarchy());
  EXPECT_EQ(apart.hosts(), 3);
  EXPECT_TRUE(apart.is_in_order());
}

}  // namespace
}  // namespace ronde::collectives
