#include "transport/arena/shared_heap.h"

#include <gtest/gtest.h>

#include <cstring>

#include "transport/loopback/loopback.h"

namespace ronde::transport {
namespace {

class SharedHeapTest : public testing::Test {
 protected:
  SharedHeapTest() : arenas_(make_loopback_world(2, RegionLayout::for_size(2))) {
    for (auto& arena : arenas_) {
      heaps_.push_back(std::make_shared<SharedHeap>(*arena));
    }
  }
  std::vector<std::unique_ptr<HostArena>> arenas_;
  std::vector<std::shared_ptr<SharedHeap>> heaps_;
};

TEST_F(SharedHeapTest, TheSameOrderGivesTheSameOffsetsOutsideTheEnginesRange) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{1} << 20}) {
    auto first = heaps_[0]->allocate(bytes);
    auto second = heaps_[1]->allocate(bytes);
    ASSERT_TRUE(first) << first.status().message();
    ASSERT_TRUE(second);
    const std::int64_t offset = arenas_[0]->own_heap().offset_of(first->get(), bytes);
    EXPECT_EQ(offset, arenas_[1]->own_heap().offset_of(second->get(), bytes));
    EXPECT_GE(offset, static_cast<std::int64_t>(HeapParts::of(arenas_[0]->layout().heap_bytes).callers));
  }
}

TEST_F(SharedHeapTest, WhatOneWritesTheOtherSees) {
  auto mine = heaps_[0]->allocate(64);
  ASSERT_TRUE(mine);
  const auto offset = static_cast<std::size_t>(arenas_[0]->own_heap().offset_of(mine->get(), 64));
  std::memset(mine->get(), 7, 64);
  EXPECT_EQ(static_cast<unsigned char>(arenas_[1]->heap(0)[offset + 63]), 7);
}

TEST_F(SharedHeapTest, FreedMemoryComesBackZeroed) {
  void* first = nullptr;
  {
    auto held = heaps_[0]->allocate(9000);
    ASSERT_TRUE(held);
    first = held->get();
    std::memset(first, 1, 9000);
  }
  auto again = heaps_[0]->allocate(9000);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->get(), first);
  EXPECT_EQ(static_cast<char*>(again->get())[8999], 0);
}

TEST_F(SharedHeapTest, WhatALateWriterMayReachIsNotGivenOutAgain) {
  auto held = heaps_[0]->allocate(9000);
  ASSERT_TRUE(held);
  void* const first = held->get();
  heaps_[0]->distrust();
  held->reset();
  auto second = heaps_[0]->allocate(9000);
  ASSERT_TRUE(second);
  void* const later = second->get();
  EXPECT_NE(later, first);
  second->reset();
  auto third = heaps_[0]->allocate(9000);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->get(), later) << "what was given out afterwards is as any memory";
}

TEST_F(SharedHeapTest, MoreThanThereIsIsRefusedAndNothingIsLost) {
  const std::size_t all = arenas_[0]->layout().heap_bytes;
  EXPECT_EQ(heaps_[0]->allocate(all).status().code(), Code::out_of_memory);
  EXPECT_TRUE(heaps_[0]->allocate(4096));
}

TEST_F(SharedHeapTest, MemoryOutlivesTheArena) {
  auto held = heaps_[0]->allocate(4096);
  ASSERT_TRUE(held);
  auto* bytes = static_cast<char*>(held->get());
  bytes[17] = 5;
  heaps_[0]->close();
  arenas_[0].reset();
  EXPECT_EQ(bytes[17], 5);
  bytes[18] = 6;
  EXPECT_EQ(heaps_[0]->allocate(1).status().code(), Code::not_initialized);
}

}  // namespace
}  // namespace ronde::transport
