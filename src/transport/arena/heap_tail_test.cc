#include "transport/arena/heap_tail.h"

#include <gtest/gtest.h>

#include "transport/arena/testing/recorded_heap.h"

namespace ronde::transport {
namespace {

TEST(HeapTail, CountsFromWhereItBegins) {
  std::byte memory[64];
  RecordedHeap whole(memory, 64, 7);
  HeapTail tail(whole, 24, 8);
  EXPECT_EQ(tail.begin(), memory + 24);
  EXPECT_EQ(tail.size_bytes(), 40u);
  EXPECT_EQ(tail.engine_bytes(), 8u) << "its own, not the whole's";
  EXPECT_EQ(tail.offset_of(memory + 24, 40), 0);
  EXPECT_EQ(tail.offset_of(memory + 63, 1), 39);
  EXPECT_EQ(tail.offset_of(memory + 23, 1), -1);
  EXPECT_TRUE(tail.commit(0, 1));
  EXPECT_TRUE(tail.commit(8, 0));
  tail.discard(1, 2);
  tail.withdraw(3, 4);
  EXPECT_TRUE(tail.make_private(5, 6));
  EXPECT_EQ(whole.asked, (std::vector<std::string>{"commit 24 1", "commit 32 0", "discard 25 2", "withdraw 27 4",
                                                   "make_private 29 6"}));
  EXPECT_EQ(tail.memory(), whole.memory());
}

TEST(HeapTail, WhatTheWholeRefusesItRefuses) {
  std::byte memory[64];
  RecordedHeap whole(memory, 64);
  HeapTail tail(whole, 24, 0);
  whole.answer = Status::error(Code::out_of_memory, "full");
  EXPECT_EQ(tail.commit(0, 1).message(), "full");
  EXPECT_EQ(tail.make_private(0, 1).message(), "full");
  whole.withdrawn_byte = 30;
  EXPECT_TRUE(tail.is_withdrawn(6, 1));
  EXPECT_FALSE(tail.is_withdrawn(5, 1));
  EXPECT_FALSE(tail.is_withdrawn(30, 1));
  EXPECT_EQ(tail.offset_of(memory + 30, 1), -1);
}

TEST(HeapTail, FromTheBeginningIsTheWhole) {
  std::byte memory[64];
  RecordedHeap whole(memory, 64);
  const HeapTail tail(whole, 0, 0);
  EXPECT_EQ(tail.begin(), whole.begin());
  EXPECT_EQ(tail.size_bytes(), 64u);
}

TEST(HeapTail, FromTheEndOnIsNone) {
  std::byte memory[64];
  RecordedHeap whole(memory, 64);
  EXPECT_EQ(HeapTail(whole, 63, 0).size_bytes(), 1u);
  EXPECT_EQ(HeapTail(whole, 64, 0).size_bytes(), 0u);
  EXPECT_EQ(HeapTail(whole, 64, 0).begin(), nullptr);
  EXPECT_EQ(HeapTail(whole, 65, 0).size_bytes(), 0u);
  RecordedHeap none(nullptr, 0);
  EXPECT_EQ(HeapTail(none, 0, 0).begin(), nullptr);
}

}  // namespace
}  // namespace ronde::transport
