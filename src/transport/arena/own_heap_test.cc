#include "transport/arena/own_heap.h"

#include <gtest/gtest.h>

#include "transport/arena/testing/recorded_heap.h"

namespace ronde::transport {
namespace {

TEST(OwnHeap, KnowsWhereBytesLieInIt) {
  std::byte memory[64];
  const RecordedHeap heap(memory + 8, 48, 16);
  EXPECT_EQ(heap.begin(), memory + 8);
  EXPECT_EQ(heap.size_bytes(), 48u);
  EXPECT_EQ(heap.engine_bytes(), 16u);
  EXPECT_EQ(heap.offset_of(memory + 8, 48), 0);
  EXPECT_EQ(heap.offset_of(memory + 9, 1), 1);
  EXPECT_EQ(heap.offset_of(memory + 55, 1), 47);
  EXPECT_EQ(heap.offset_of(memory + 56, 0), 48) << "no byte beyond the end";
  EXPECT_EQ(heap.offset_of(memory + 56, 1), -1);
  EXPECT_EQ(heap.offset_of(memory + 7, 1), -1);
  EXPECT_EQ(heap.offset_of(memory + 7, 0), -1);
  EXPECT_EQ(heap.offset_of(memory + 9, 48), -1) << "the last byte lies outside";
  EXPECT_EQ(heap.offset_of(memory + 9, SIZE_MAX), -1);
  EXPECT_EQ(heap.offset_of(nullptr, 0), -1);
}

TEST(OwnHeap, KnowsNothingOfWhatIsWithdrawn) {
  std::byte memory[64];
  RecordedHeap heap(memory, 64);
  heap.withdrawn_byte = 20;
  EXPECT_EQ(heap.offset_of(memory + 16, 4), 16);
  EXPECT_EQ(heap.offset_of(memory + 16, 5), -1);
  EXPECT_EQ(heap.offset_of(memory + 21, 5), 21);
}

TEST(OwnHeap, ThatHasNoBytesIsNone) {
  std::byte memory[1];
  const RecordedHeap heap(memory, 0);
  EXPECT_EQ(heap.begin(), nullptr);
  EXPECT_EQ(heap.offset_of(memory, 0), -1);
  EXPECT_EQ(heap.offset_of(nullptr, 0), -1);
}

}  // namespace
}  // namespace ronde::transport
