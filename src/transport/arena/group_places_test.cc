#include "transport/arena/group_places.h"

#include <gtest/gtest.h>

#include <vector>

#include "transport/arena/control_block.h"

namespace ronde::transport {
namespace {

constexpr auto kHuge = static_cast<std::int64_t>(kHugePageBytes);
/// The least that a group of two has: what lies before its heap, and one page of heap.
constexpr std::size_t kLeast = 2 * kHugePageBytes;

TEST(GroupPlaces, OfALittleRoomAreTheLeastAndLieBesideEachOther) {
  ASSERT_EQ(least_group_bytes(2), kLeast);
  GroupPlaces places({8 * kHuge, 13 * kHuge});
  const auto first = places.reserve(2);
  const auto second = places.reserve(2);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->offset, 8 * kHugePageBytes);
  EXPECT_EQ(first->bytes, kLeast);
  EXPECT_EQ(second->offset, 10 * kHugePageBytes);
  EXPECT_EQ(second->bytes, kLeast);
  EXPECT_FALSE(places.reserve(2)) << "one page is left, and two are needed";
}

TEST(GroupPlaces, OfMuchRoomAreAShareOfWhatIsLeft) {
  const std::int64_t room = 1024 * 10 * kHuge;
  GroupPlaces places({0, room});
  const auto first = places.reserve(2);
  const auto second = places.reserve(2);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->bytes, 10 * kHugePageBytes);
  EXPECT_EQ(second->offset, first->bytes);
  EXPECT_EQ(second->bytes, 9 * kHugePageBytes) << "of what is left then, in whole huge pages";
}

TEST(GroupPlaces, WhatIsFreedIsGivenOutAgain) {
  GroupPlaces places({0, 4 * kHuge});
  const auto first = places.reserve(2);
  const auto second = places.reserve(2);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(places.reserve(1));
  places.free(*first);
  const auto third = places.reserve(1);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->offset, first->offset);
}

TEST(GroupPlaces, WhereWhatIsLeftIsInPiecesTheLeastIsGiven) {
  GroupPlaces places({0, 8192 * kHuge});
  const auto take_all = [&] {
    std::vector<GroupPlace> all;
    while (const auto place = places.reserve(2)) {
      all.push_back(*place);
    }
    return all;
  };
  // Where nothing else is left, each place gives room for the least ones only.
  std::vector<GroupPlace> pieces;
  for (const GroupPlace& place : take_all()) {
    places.free(place);
    for (const GroupPlace& piece : take_all()) {
      ASSERT_EQ(piece.bytes, kLeast);
      pieces.push_back(piece);
    }
  }
  ASSERT_EQ(pieces.size(), 4096u);
  for (std::size_t i = 0; i < pieces.size(); i += 2) {
    places.free(pieces[i]);
  }
  ASSERT_EQ(usual_group_bytes(2, 4096 * kHugePageBytes), 4 * kHugePageBytes) << "no hole is so long";
  const auto place = places.reserve(2);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->bytes, kLeast);
}

TEST(GroupPlaces, OfOneRankAndOfAsManyAsAHostCanHaveFitIntoTwoPages) {
  for (const int size : {1, 2, kMaxHostRanks}) {
    GroupPlaces places({0, 2 * kHuge});
    const auto place = places.reserve(size);
    ASSERT_TRUE(place) << size;
    EXPECT_EQ(place->offset, 0u);
    EXPECT_EQ(place->bytes, kLeast);
    EXPECT_FALSE(places.reserve(size)) << size;
  }
}

TEST(GroupPlaces, OfLessThanTheLeastThereAreNone) {
  GroupPlaces places({0, kHuge});
  EXPECT_FALSE(places.reserve(1));
}

TEST(GroupPlaces, WithoutAHeapThereAreNone) {
  GroupPlaces places({0, 0});
  EXPECT_FALSE(places.reserve(1));
}

}  // namespace
}  // namespace ronde::transport
