#include "transport/arena/heap_map.h"

#include <gtest/gtest.h>

#include <random>

namespace ronde::transport {
namespace {

TEST(HeapMap, FirstFitAlignedToWhatIsAsked) {
  HeapMap heap({100, 3L * 4096});
  EXPECT_EQ(heap.allocate(1, kLineAlign), 128);
  EXPECT_EQ(heap.allocate(0, kLineAlign), 256);
  EXPECT_EQ(heap.allocate(5000, kPageAlign), 4096);
  EXPECT_EQ(heap.allocate(200, kLineAlign), 384) << "the hole before the pages";
  EXPECT_EQ(heap.allocate(1, kPageAlign), std::nullopt);
}

TEST(HeapMap, NoHeapGivesNothing) {
  HeapMap heap({});
  EXPECT_EQ(heap.allocate(1, kLineAlign), std::nullopt);
  EXPECT_EQ(heap.bytes_free(), 0u);
}

TEST(HeapMap, AbsurdSizesAreRefused) {
  HeapMap heap({0, 1 << 20});
  EXPECT_EQ(heap.allocate(UINT64_MAX, kPageAlign), std::nullopt);
  EXPECT_EQ(heap.allocate(UINT64_MAX - 4096, kPageAlign), std::nullopt);
}

TEST(HeapMap, NeighboursGrowTogetherAgain) {
  HeapMap heap({0, 4L * 128});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(heap.allocate(128, kLineAlign), i * 128);
  }
  EXPECT_TRUE(heap.free(0));
  EXPECT_TRUE(heap.free(256));
  EXPECT_FALSE(heap.free(256));
  EXPECT_EQ(heap.allocate(256, kLineAlign), std::nullopt);
  EXPECT_TRUE(heap.free(128));
  EXPECT_EQ(heap.allocate(3UL * 128, kLineAlign), 0);
}

TEST(HeapMap, RandomUseNeverOverlapsAndLosesNothing) {
  constexpr std::int64_t kBytes = 1 << 16;
  HeapMap heap({0, kBytes});
  std::mt19937 random(7);
  std::map<std::int64_t, std::int64_t> live;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 2 == 0 && !live.empty()) {
      auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      ASSERT_TRUE(heap.free(victim->first));
      live.erase(victim);
      continue;
    }
    const std::uint64_t align = random() % 2 == 0 ? kLineAlign : kPageAlign;
    const std::uint64_t bytes = random() % 6000;
    const auto offset = heap.allocate(bytes, align);
    if (!offset) {
      continue;
    }
    ASSERT_EQ(static_cast<std::uint64_t>(*offset) % align, 0u);
    const std::int64_t end = *offset + static_cast<std::int64_t>(bytes);
    ASSERT_LE(end, kBytes);
    const auto next = live.lower_bound(*offset);
    ASSERT_TRUE(next == live.end() || next->first >= end);
    ASSERT_TRUE(next == live.begin() || std::prev(next)->second <= *offset);
    live.emplace(*offset, end);
  }
  for (const auto& [begin, end] : live) {
    ASSERT_TRUE(heap.free(begin));
  }
  EXPECT_EQ(heap.bytes_free(), static_cast<std::uint64_t>(kBytes));
}

}  // namespace
}  // namespace ronde::transport
