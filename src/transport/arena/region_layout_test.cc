#include "transport/arena/region_layout.h"

#include <gtest/gtest.h>

#include "transport/arena/control_block.h"

namespace ronde::transport {
namespace {

TEST(RegionLayout, OfUpToEightRanksTakesAtMostTwoMebibytes) {
  for (int size = 1; size <= 8; ++size) {
    const RegionLayout layout = RegionLayout::for_size(size);
    EXPECT_TRUE(layout.check()) << size;
    EXPECT_LE(layout.eager_bytes(), std::size_t{2} << 20) << size;
    if (size > 1) {
      RegionLayout defaults;
      defaults.size = size;
      defaults.heap_bytes = kMostHeapBytes;
      EXPECT_EQ(layout, defaults);
    }
  }
  EXPECT_LE(RegionLayout::for_size(1).eager_bytes(), 16384u);
}

TEST(RegionLayout, OfManyRanksStaysSmall) {
  for (int size : {9, 16, 32, 33, 64, 128, 256}) {
    const RegionLayout layout = RegionLayout::for_size(size);
    EXPECT_TRUE(layout.check()) << size << ": " << layout.check().message();
    EXPECT_LE(layout.eager_bytes(), std::size_t{2} << 20) << size;
  }
}

TEST(RegionLayout, PutsEverythingOnLinesOfItsOwn) {
  for (int size : {1, 2, 3, 5, 8, 31, 256}) {
    const RegionLayout layout = RegionLayout::for_size(size);
    std::size_t end = sizeof(ControlBlock);
    const auto next = [&](std::size_t offset, std::size_t bytes) {
      EXPECT_EQ(offset % kLineBytes, 0u);
      EXPECT_GE(offset, end);
      end = offset + bytes;
    };
    for (int peer = 0; peer < size; ++peer) {
      next(layout.ring_offset(peer), kLineBytes + layout.ring_bytes);
    }
    for (int peer = 0; peer < size; ++peer) {
      next(layout.tail_offset(peer), kLineBytes);
    }
    for (int slot = 0; slot < layout.slots; ++slot) {
      next(layout.input_offset(slot), layout.slot_bytes);
    }
    for (int slot = 0; slot < layout.slots; ++slot) {
      next(layout.result_offset(slot), layout.result_bytes());
    }
    EXPECT_LE(end, layout.eager_bytes());
    EXPECT_EQ(layout.eager_bytes() % 4096, 0u);
    EXPECT_GE(layout.heap_offset(), layout.eager_bytes());
    EXPECT_EQ(layout.heap_offset() % kHugePageBytes, 0u);
    EXPECT_EQ(layout.total_bytes(), layout.heap_offset() + layout.heap_bytes);
    EXPECT_LE(layout.heap_bytes * static_cast<std::size_t>(size), std::size_t{4} << 40);
    EXPECT_GE(layout.result_bytes() * static_cast<std::size_t>(size), layout.slot_bytes);
  }
}

TEST(RegionLayout, WithoutAHeapEndsBeforeIt) {
  RegionLayout layout = RegionLayout::for_size(3);
  layout.heap_bytes = 0;
  EXPECT_TRUE(layout.check());
  EXPECT_EQ(layout.total_bytes(), layout.eager_bytes());
}

TEST(RegionLayout, RefusesWhatCannotWork) {
  const auto refused = [](auto change) {
    RegionLayout layout = RegionLayout::for_size(2);
    change(layout);
    return layout.check().code() == Code::invalid_argument;
  };
  EXPECT_TRUE(refused([](RegionLayout& layout) { layout.size = 0; }));
  EXPECT_TRUE(refused([](RegionLayout& layout) { layout.size = kMaxHostRanks + 1; }));
  EXPECT_TRUE(refused([](RegionLayout& layout) { layout.ring_bytes = 1000; }));
  EXPECT_TRUE(refused([](RegionLayout& layout) { layout.slot_bytes = 100; }));
  EXPECT_TRUE(refused([](RegionLayout& layout) { layout.slot_bytes = 0; }));
  EXPECT_TRUE(refused([](RegionLayout& layout) { layout.slots = 1; }));
  EXPECT_TRUE(refused([](RegionLayout& layout) { layout.heap_bytes = 4096; }));
  EXPECT_TRUE(refused([](RegionLayout& layout) { layout.heap_bytes = 2 * kMostHeapBytes; }));
}

TEST(HeapParts, AreMultiplesOfTheHugePageAndLeaveTheCallersMost) {
  for (const std::size_t huge_pages : {8, 9, 64, 1 << 17}) {
    const std::size_t bytes = huge_pages * kHugePageBytes;
    const HeapParts parts = HeapParts::of(bytes);
    EXPECT_EQ(parts.groups, huge_pages / 8 * kHugePageBytes);
    EXPECT_EQ(parts.callers, 2 * parts.groups);
    EXPECT_GE(bytes - parts.callers, bytes / 4 * 3);
  }
}

TEST(HeapParts, OfASmallHeapAreAllTheCallers) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kHugePageBytes, 7 * kHugePageBytes}) {
    EXPECT_EQ(HeapParts::of(bytes).groups, 0u) << bytes;
    EXPECT_EQ(HeapParts::of(bytes).callers, 0u) << bytes;
  }
}

}  // namespace
}  // namespace ronde::transport
