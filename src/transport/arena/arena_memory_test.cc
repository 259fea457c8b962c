#include "transport/arena/arena_memory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "transport/loopback/loopback.h"

namespace ronde::transport {
namespace {

class ArenaMemoryTest : public testing::Test {
 protected:
  ArenaMemoryTest() : arenas_(make_loopback_world(2, RegionLayout::for_size(2))) {}

  std::vector<std::unique_ptr<HostArena>> arenas_;
  ArenaMemory first_{*arenas_[0], ArenaMemory::Holds::all_members};
  ArenaMemory second_{*arenas_[1], ArenaMemory::Holds::all_members};
};

TEST_F(ArenaMemoryTest, AMemberFindsWhatItIsTold) {
  auto told = second_.allocate(4096);
  ASSERT_TRUE(told);
  std::memset(told->get(), 7, 4096);
  const std::int64_t place = second_.place_of(told->get(), 4096);
  const std::byte* const found = first_.find(1, place, 4096);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(static_cast<int>(found[4095]), 7);
}

TEST_F(ArenaMemoryTest, NobodyFindsWhatLiesBeyond) {
  const auto all = static_cast<std::int64_t>(arenas_[0]->layout().heap_bytes);
  EXPECT_NE(first_.find(1, all - 16, 16), nullptr);
  EXPECT_EQ(first_.find(1, all - 15, 16), nullptr);
  EXPECT_EQ(first_.find(1, all, 0), nullptr);
  EXPECT_EQ(first_.find(1, -8, 16), nullptr);
  EXPECT_EQ(first_.find(1, 8, ~std::uint64_t{0}), nullptr);
  const ArenaMemory alone(*arenas_[0], ArenaMemory::Holds::own_rank);
  EXPECT_EQ(alone.find(1, 0, 16), nullptr) << "members do not reach each other's";
  EXPECT_FALSE(alone.reaches_members());
}

TEST_F(ArenaMemoryTest, WhatIsWithdrawnHasNoPlace) {
  auto held = first_.allocate(8192);
  ASSERT_TRUE(held);
  const std::int64_t place = first_.place_of(held->get(), 8192);
  const MemorySpan last{static_cast<std::size_t>(place) + 8000, 100};
  EXPECT_EQ(first_.begin_of(last), static_cast<const std::byte*>(held->get()) + 8000);
  first_.withdraw(last);
  EXPECT_EQ(first_.place_of(held->get(), 8192), kNoOffset);
  EXPECT_EQ(first_.place_of(held->get(), 4096), place);
}

TEST_F(ArenaMemoryTest, ItEndsWithTheJobAndAGroupsIsDistrustedUnlessAllHaveLeft) {
  ArenaMemory group(*arenas_[0], ArenaMemory::Holds::all_members, first_.heap());
  void* at = nullptr;
  for (const bool have_all_left : {true, false}) {
    auto held = group.allocate(4096);
    ASSERT_TRUE(held);
    if (at != nullptr) {
      EXPECT_EQ(held->get(), at) << "it was given back";
    }
    at = held->get();
    group.end(have_all_left);
  }
  EXPECT_NE(first_.allocate(4096).value().get(), at) << "a member that has not left may write there";
  first_.end(true);
  EXPECT_EQ(group.allocate(4096).status().code(), Code::not_initialized);
}

}  // namespace
}  // namespace ronde::transport
