#include "transport/arena/group_arena.h"

#include <gtest/gtest.h>

#include "transport/loopback/loopback.h"

namespace ronde::transport {
namespace {

TEST(GroupArena, ReachesTheCallersPartOfTheHeap) {
  const auto hosts = make_loopback_world(3, RegionLayout::for_size(3));
  const HeapParts parts = HeapParts::of(hosts[0]->layout().heap_bytes);
  const std::size_t bytes = least_group_bytes(2);
  // Each member has its part where it likes.
  const GroupPlace places[] = {{parts.groups, bytes}, {parts.groups + kHugePageBytes, bytes}};
  ASSERT_TRUE(open_group_part(hosts[0]->own_heap(), places[0], 2));
  ASSERT_TRUE(open_group_part(hosts[2]->own_heap(), places[1], 2));
  const std::vector<GroupMember> members = {{0, places[0].offset, 7}, {2, places[1].offset, 0}};
  auto first = std::make_unique<GroupArena>(*hosts[0], members, places[0]);
  auto second = std::make_unique<GroupArena>(*hosts[2], members, places[1]);
  EXPECT_EQ(first->rank(), 0);
  EXPECT_EQ(second->rank(), 1);
  EXPECT_EQ(second->region(0), hosts[0]->heap(0) + parts.groups);
  first->control(0).ticks.published.value = 5;
  EXPECT_EQ(second->control(0).ticks.published.value, 5u);
  EXPECT_GT(first->own_heap().engine_bytes(), 0u);
  // What lies in the callers' part of a rank has an offset there for all members.
  ASSERT_TRUE(hosts[0]->own_heap().commit(parts.callers, 4096));
  std::byte* const tensor = hosts[0]->heap(0) + parts.callers;
  const std::int64_t offset = first->own_heap().offset_of(tensor, 4096);
  ASSERT_GE(offset, static_cast<std::int64_t>(first->own_heap().engine_bytes()));
  EXPECT_EQ(second->heap(0) + offset, tensor);
  EXPECT_LE(static_cast<std::size_t>(offset), first->layout().heap_bytes - 4096);
  // Who rings for the group says so.
  second->bells().ring_others();
  EXPECT_EQ(hosts[0]->control(0).calls.words[0], 1u << 7);
  EXPECT_EQ(hosts[2]->control(2).calls.words[0], 0u);
  // Its part is free once the others have left.
  const auto lives = [](int) { return false; };
  EXPECT_FALSE(is_group_part_left(hosts[0]->own_heap(), places[0], 2, 0, lives));
  EXPECT_TRUE(is_group_part_left(hosts[0]->own_heap(), places[0], 2, 0, [](int member) { return member == 1; }));
  second.reset();
  EXPECT_TRUE(is_group_part_left(hosts[0]->own_heap(), places[0], 2, 0, lives));
  EXPECT_FALSE(is_group_part_left(hosts[2]->own_heap(), places[1], 2, 1, lives));
}

}  // namespace
}  // namespace ronde::transport
