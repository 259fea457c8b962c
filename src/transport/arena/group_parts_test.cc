#include "transport/arena/group_parts.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "transport/arena/mapping.h"
#include "transport/arena/testing/recorded_heap.h"
#include "transport/loopback/loopback.h"

namespace ronde::transport {
namespace {

bool nobody(int) { return false; }

/// A rank's parts of the groups of a job of three on one host.
class GroupPartsTest : public testing::Test {
 protected:
  GroupParts parts_of(int rank) { return GroupParts(host(rank).own_heap(), rank, true); }
  HostArena& host(int rank) { return *hosts_[static_cast<std::size_t>(rank)]; }
  /// This member's arena of a group of ranks 0 and 2.
  std::unique_ptr<GroupArena> arena_of(int rank, const GroupPart& of_first, const GroupPart& of_third) {
    const std::vector<GroupMember> members = {{0, of_first.place.offset, of_first.call},
                                              {2, of_third.place.offset, of_third.call}};
    return std::make_unique<GroupArena>(host(rank), members, rank == 0 ? of_first.place : of_third.place);
  }

  std::vector<std::unique_ptr<HostArena>> hosts_ = make_loopback_world(3, RegionLayout::for_size(3));
};

TEST_F(GroupPartsTest, AreOpenedInTheGroupsRangeOfTheHeap) {
  GroupParts parts = parts_of(2);
  EXPECT_EQ(parts.taken(), 0u);
  auto first = parts.reserve({0, 2}, nobody);
  auto second = parts.reserve({2}, nobody);
  ASSERT_TRUE(first && second);
  const HeapParts heap = HeapParts::of(kLoopbackHeapBytes);
  EXPECT_EQ(first->place.offset, heap.groups);
  EXPECT_EQ(second->place.offset, first->place.offset + first->place.bytes);
  EXPECT_LE(second->place.offset + second->place.bytes, heap.callers);
  EXPECT_EQ(first->call, 0);
  EXPECT_EQ(second->call, 1);
  EXPECT_EQ(first->own, 1);
  EXPECT_EQ(second->own, 0);
  EXPECT_EQ(first->ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(parts.part(1).place.offset, second->place.offset);
  EXPECT_EQ(parts.taken(), 2u);
}

TEST_F(GroupPartsTest, WhatNobodyHasUsedIsGivenOutAgain) {
  GroupParts parts = parts_of(0);
  auto first = parts.reserve({0, 2}, nobody);
  ASSERT_TRUE(first);
  parts.give_back(first->call);
  EXPECT_EQ(parts.taken(), 0u);
  auto again = parts.reserve({0, 1}, nobody);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->place.offset, first->place.offset);
  EXPECT_EQ(again->call, first->call);
}

TEST_F(GroupPartsTest, APartIsTakenUntilAllMembersHaveLeft) {
  GroupParts firsts = parts_of(0);
  GroupParts thirds = parts_of(2);
  auto of_first = firsts.reserve({0, 2}, nobody);
  auto of_third = thirds.reserve({0, 2}, nobody);
  ASSERT_TRUE(of_first && of_third);
  auto first = arena_of(0, *of_first, *of_third);
  auto third = arena_of(2, *of_first, *of_third);
  first.reset();
  firsts.leave(of_first->call, nobody);
  EXPECT_EQ(firsts.taken(), 1u) << "the other may still write there";
  auto beside = firsts.reserve({0, 2}, nobody);
  ASSERT_TRUE(beside);
  EXPECT_NE(beside->place.offset, of_first->place.offset);
  EXPECT_NE(beside->call, of_first->call);
  third.reset();
  thirds.leave(of_third->call, nobody);
  EXPECT_EQ(thirds.taken(), 0u) << "the first has left before";
  EXPECT_EQ(firsts.taken(), 2u) << "nobody has looked";
  auto again = firsts.reserve({0, 2}, nobody);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->place.offset, of_first->place.offset);
  EXPECT_EQ(again->call, of_first->call);
  EXPECT_EQ(firsts.taken(), 2u);
}

TEST_F(GroupPartsTest, AMemberThatHasEndedNeedNotLeave) {
  GroupParts firsts = parts_of(0);
  GroupParts thirds = parts_of(2);
  auto of_first = firsts.reserve({0, 2}, nobody);
  auto of_third = thirds.reserve({0, 2}, nobody);
  ASSERT_TRUE(of_first && of_third);
  arena_of(0, *of_first, *of_third).reset();
  firsts.leave(of_first->call, [](int rank) { return rank == 1; });
  EXPECT_EQ(firsts.taken(), 1u) << "that one is no member";
  EXPECT_TRUE(firsts.reserve({0}, [](int rank) { return rank == 2; }));
  EXPECT_EQ(firsts.taken(), 1u) << "the job's rank 2 is the group's member 1";
}

TEST_F(GroupPartsTest, WithoutRoomIsRefusedAndNothingIsLost) {
  GroupParts parts = parts_of(1);
  std::vector<int> calls;
  Result<GroupPart> part = parts.reserve({0, 1}, nobody);
  for (; part; part = parts.reserve({0, 1}, nobody)) {
    calls.push_back(part->call);
  }
  EXPECT_EQ(part.status().code(), Code::out_of_memory);
  EXPECT_NE(part.status().message().find("belongs to " + std::to_string(calls.size()) + " of 4096"), std::string::npos)
      << part.status().message();
  EXPECT_EQ(parts.taken(), calls.size());
  parts.give_back(calls.front());
  part = parts.reserve({0, 1}, nobody);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->call, calls.front());
}

TEST(GroupParts, WhereMemoryIsShortNeitherPlaceNorNumberIsLost) {
  const Mapping memory = Mapping::anonymous(64 * kHugePageBytes).value();
  RecordedHeap heap(memory.base(), memory.bytes());
  GroupParts parts(heap, 0, true);
  heap.answer = Status::error(Code::out_of_memory, "no pages");
  EXPECT_EQ(parts.reserve({0, 1}, nobody).status().message(), "no pages");
  EXPECT_EQ(parts.taken(), 0u);
  heap.answer = Status();
  const Result<GroupPart> part = parts.reserve({0, 1}, nobody);
  ASSERT_TRUE(part);
  EXPECT_EQ(part.value().place.offset, HeapParts::of(memory.bytes()).groups);
  EXPECT_EQ(part.value().call, 0);
  heap.asked.clear();
  parts.give_back(part.value().call);
  EXPECT_EQ(heap.asked, (std::vector<std::string>{"discard " + std::to_string(part.value().place.offset) + " " +
                                                  std::to_string(part.value().place.bytes)}));
}

TEST_F(GroupPartsTest, WithoutSharedMemoryAGroupGoesByANumberThatNoOtherHas) {
  GroupParts parts(host(0).own_heap(), 5, false);
  std::set<std::uint64_t> numbers;
  for (int i = 0; i < 3; ++i) {
    auto part = parts.reserve({3, 5}, nobody);
    ASSERT_TRUE(part);
    EXPECT_EQ(part->number >> 32, 5u);
    EXPECT_EQ(part->place.bytes, 0u);
    EXPECT_EQ(part->call, 0);
    EXPECT_EQ(part->own, 1);
    EXPECT_TRUE(numbers.insert(part->number).second);
    parts.leave(part->call, nobody);
    EXPECT_EQ(parts.taken(), 0u) << "there is nothing that others touch";
  }
}

TEST_F(GroupPartsTest, ThereAreAsManyAsCalls) {
  GroupParts parts(host(0).own_heap(), 0, false);
  for (int call = 0; call < kCallBits; ++call) {
    ASSERT_TRUE(parts.reserve({0}, nobody));
  }
  EXPECT_EQ(parts.reserve({0}, nobody).status().code(), Code::out_of_memory);
  parts.give_back(17);
  EXPECT_EQ(parts.reserve({0}, nobody)->call, 17);
}

}  // namespace
}  // namespace ronde::transport
