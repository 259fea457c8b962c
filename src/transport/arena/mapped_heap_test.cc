// How the ranks of a host share what memory there is: with a machine of their own, of which they are told how much is
// left. Pages and descriptors: shm/heap_test.cc.
#include "transport/arena/mapped_heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

namespace ronde::transport {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Of ranks of one process that think the machine has as much memory as the test says.
class MappedHeaps {
 public:
  explicit MappedHeaps(int size, MemoryPromises::Room room) : lines_(static_cast<std::size_t>(size)) {
    std::vector<PromiseLine*> lines;
    for (PromiseLine& line : lines_) {
      lines.push_back(&line);
    }
    mapping_ = std::make_shared<const Mapping>(Mapping::anonymous(static_cast<std::size_t>(size) * kHeapBytes).value());
    for (int rank = 0; rank < size; ++rank) {
      MappedHeap::Place place;
      place.mapping = mapping_;
      place.begin = mapping_->base() + static_cast<std::size_t>(rank) * kHeapBytes;
      place.bytes = kHeapBytes;
      place.engine_bytes = kMiB;
      heaps_.push_back(std::make_unique<MappedHeap>(std::move(place), MemoryPromises(rank, lines, room)));
    }
  }
  MappedHeap& operator[](int rank) { return *heaps_[static_cast<std::size_t>(rank)]; }
  std::uint64_t promised() const {
    std::uint64_t bytes = 0;
    for (const PromiseLine& line : lines_) {
      bytes += line.bytes;
    }
    return bytes;
  }
  /// Of all heaps, what exists.
  std::uint64_t used() const {
    std::uint64_t bytes = 0;
    for (const auto& heap : heaps_) {
      std::vector<unsigned char> pages(kHeapBytes / 4096);
      EXPECT_EQ(::mincore(heap->begin(), kHeapBytes, pages.data()), 0);
      for (const unsigned char page : pages) {
        bytes += (page & 1) != 0 ? 4096 : 0;
      }
    }
    return bytes;
  }

  static constexpr std::size_t kHeapBytes = 64 * kMiB;

 private:
  std::deque<PromiseLine> lines_;
  std::shared_ptr<const Mapping> mapping_;
  std::vector<std::unique_ptr<MappedHeap>> heaps_;
};

std::uint64_t much_room() { return std::uint64_t{1} << 40; }

TEST(MappedHeap, WhoComesLateGetsWhatIsThere) {
  std::uint64_t room = 10 * kMiB;
  MappedHeaps heaps(2, [&] { return room; });
  ASSERT_TRUE(heaps[0].commit(0, 4 * kMiB));
  room -= 4 * kMiB;
  EXPECT_TRUE(heaps[1].commit(0, 4 * kMiB)) << "6 are left, of which nobody else has asked for any";
  room -= 4 * kMiB;
  const Status status = heaps[0].commit(8 * kMiB, 4 * kMiB);
  EXPECT_EQ(status.code(), Code::out_of_memory);
  EXPECT_NE(status.message().find("room for " + std::to_string(2 * kMiB)), std::string::npos) << status.message();
  EXPECT_EQ(heaps.promised(), 0u);
}

TEST(MappedHeap, WhatAnotherIsAboutToTakeIsNotGivenTwice) {
  MappedHeaps* all = nullptr;
  Status second;
  int looks = 0;
  MappedHeaps heaps(2, [&]() -> std::uint64_t {
    if (++looks == 1) {  // the first is about to make its pages, which nobody counts yet
      second = (*all)[1].commit(0, 4 * kMiB);
    }
    return 6 * kMiB;
  });
  all = &heaps;
  EXPECT_TRUE(heaps[0].commit(0, 4 * kMiB));
  EXPECT_EQ(second.code(), Code::out_of_memory);
  EXPECT_EQ(heaps.promised(), 0u);
}

TEST(MappedHeap, RanksThatAskAtOnceNeverTakeMoreThanThereIs) {
  constexpr int kRanks = 4;
  constexpr std::uint64_t kAll = 40 * kMiB;
  MappedHeaps* all = nullptr;
  MappedHeaps heaps(kRanks, [&] {
    const std::uint64_t used = all->used();
    return kAll - std::min(kAll, used);
  });
  all = &heaps;
  std::atomic<int> given{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (std::size_t at = 0; at + 3 * kMiB <= 64 * kMiB; at += 3 * kMiB) {
        given += heaps[rank].commit(at, 3 * kMiB) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LE(heaps.used(), kAll);
  EXPECT_EQ(heaps.used(), static_cast<std::uint64_t>(given) * 3 * kMiB) << "what is refused leaves nothing";
  // What a rank is making counts as promised and as made for a moment, in which another may be refused.
  EXPECT_LE(given, 13) << "no more than there is room for";
  EXPECT_GE(given, 13 - (kRanks - 1)) << "and about as much";
  EXPECT_EQ(heaps.promised(), 0u);
}

TEST(MappedHeap, MakesThePagesOfARangeAndGivesThemBack) {
  MappedHeaps heaps(1, &much_room);
  MappedHeap& heap = heaps[0];
  ASSERT_TRUE(heap.commit(0, 0));
  EXPECT_EQ(heaps.used(), 0u);
  ASSERT_TRUE(heap.commit(4096, 1));
  EXPECT_EQ(heaps.used(), 4096u);
  heap.begin()[4096] = std::byte{7};
  ASSERT_TRUE(heap.commit(MappedHeaps::kHeapBytes - 4096, 4096));
  EXPECT_EQ(heaps.used(), 8192u);
  heap.discard(4096, 4095);
  EXPECT_EQ(heaps.used(), 8192u) << "no whole page lies in the range";
  heap.discard(4096, 4096);
  EXPECT_EQ(heaps.used(), 4096u);
  ASSERT_TRUE(heap.commit(4096, 4096));
  EXPECT_EQ(heap.begin()[4096], std::byte{0});
}

TEST(MappedHeap, RefusesWhatLiesOutside) {
  MappedHeaps heaps(1, &much_room);
  constexpr std::size_t kEnd = MappedHeaps::kHeapBytes;
  EXPECT_TRUE(heaps[0].commit(kEnd, 0));
  EXPECT_EQ(heaps[0].commit(kEnd, 1).code(), Code::out_of_memory);
  EXPECT_EQ(heaps[0].commit(kEnd + 1, 0).code(), Code::out_of_memory);
  EXPECT_EQ(heaps[0].commit(4096, kEnd).code(), Code::out_of_memory);
  EXPECT_EQ(heaps[0].commit(4096, SIZE_MAX).code(), Code::out_of_memory);
  EXPECT_EQ(heaps.used(), 0u);
}

TEST(MappedHeap, WithdrawsWholePages) {
  MappedHeaps heaps(2, &much_room);
  MappedHeap& heap = heaps[0];
  ASSERT_TRUE(heap.commit(0, 4 * 4096));
  EXPECT_FALSE(heap.is_withdrawn(0, MappedHeaps::kHeapBytes));
  heap.withdraw(4096 + 100, 1);
  EXPECT_TRUE(heap.is_withdrawn(4096, 1));
  EXPECT_TRUE(heap.is_withdrawn(2 * 4096 - 1, 1));
  EXPECT_FALSE(heap.is_withdrawn(4096, 0));
  EXPECT_FALSE(heap.is_withdrawn(0, 4096));
  EXPECT_FALSE(heap.is_withdrawn(2 * 4096, 4096));
  EXPECT_EQ(heap.offset_of(heap.begin() + 4096, 1), -1);
  EXPECT_EQ(heap.offset_of(heap.begin() + 4095, 1), 4095);
  EXPECT_FALSE(heaps[1].is_withdrawn(4096, 1)) << "each rank speaks of its own";
  EXPECT_TRUE(heap.make_private(4096 + 100, 1)) << "of one process there is nobody to keep out";
  heap.discard(0, 4 * 4096);
  EXPECT_EQ(heaps.used(), 4096u) << "a late rank may store to what is withdrawn, so that stays";
}

TEST(MappedHeap, WithoutBytesIsNoHeap) {
  PromiseLine line;
  MappedHeap heap({}, MemoryPromises(0, {&line}, &much_room));
  EXPECT_EQ(heap.begin(), nullptr);
  EXPECT_TRUE(heap.commit(0, 0));
  EXPECT_EQ(heap.commit(0, 1).code(), Code::out_of_memory);
  heap.discard(0, 4096);
  EXPECT_EQ(heap.offset_of(&line, 0), -1);
}

TEST(MappedHeap, KeepsItsMappingWhileItsMemoryIsHeld) {
  std::shared_ptr<const void> memory;
  std::byte* data = nullptr;
  {
    MappedHeaps heaps(1, &much_room);
    ASSERT_TRUE(heaps[0].commit(0, 4096));
    memory = heaps[0].memory();
    data = heaps[0].begin();
  }
  *data = std::byte{3};
  EXPECT_EQ(*data, std::byte{3});
}

}  // namespace
}  // namespace ronde::transport
