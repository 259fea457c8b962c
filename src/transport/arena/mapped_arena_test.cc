// How the ranks of a host share what memory there is: with a machine of their own, of which they are told how much is
// left. Pages and descriptors: shm/heap_test.cc.
#include "transport/arena/mapped_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

namespace ronde::transport {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Ranks that think the machine has as much memory as the test says.
class MappedArenas {
 public:
  explicit MappedArenas(int size, MappedArena::Room room) {
    RegionLayout layout = RegionLayout::for_size(size);
    layout.heap_bytes = 64 * kMiB;
    region_bytes_ = (layout.total_bytes() + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    Result<Mapping> memory = Mapping::anonymous(static_cast<std::size_t>(size) * region_bytes_);
    mapping_ = std::make_shared<const Mapping>(std::move(memory).value());
    for (int rank = 0; rank < size; ++rank) {
      std::vector<MappedArena::Member> members(static_cast<std::size_t>(size));
      for (std::size_t peer = 0; peer < members.size(); ++peer) {
        members[peer].mapping = mapping_;
        members[peer].region = mapping_->base() + peer * region_bytes_;
      }
      arenas_.push_back(std::make_unique<MappedArena>(rank, layout, std::move(members), room));
    }
  }
  MappedArena& operator[](int rank) { return *arenas_[static_cast<std::size_t>(rank)]; }
  std::uint64_t promised() {
    std::uint64_t bytes = 0;
    for (const auto& arena : arenas_) {
      bytes += arena->control(arena->rank()).promise.bytes;
    }
    return bytes;
  }
  /// Of all heaps, what exists.
  std::uint64_t used() {
    std::uint64_t bytes = 0;
    for (const auto& arena : arenas_) {
      std::vector<unsigned char> pages(arena->layout().heap_bytes / 4096);
      EXPECT_EQ(::mincore(arena->heap(arena->rank()), arena->layout().heap_bytes, pages.data()), 0);
      for (const unsigned char page : pages) {
        bytes += (page & 1) != 0 ? 4096 : 0;
      }
    }
    return bytes;
  }

 private:
  std::size_t region_bytes_ = 0;
  std::shared_ptr<const Mapping> mapping_;
  std::vector<std::unique_ptr<MappedArena>> arenas_;
};

TEST(MappedArena, WhoComesLateGetsWhatIsThere) {
  std::uint64_t room = 10 * kMiB;
  MappedArenas arenas(2, [&] { return room; });
  ASSERT_TRUE(arenas[0].commit(0, 4 * kMiB));
  room -= 4 * kMiB;
  EXPECT_TRUE(arenas[1].commit(0, 4 * kMiB)) << "6 are left, of which nobody else has asked for any";
  room -= 4 * kMiB;
  const Status status = arenas[0].commit(8 * kMiB, 4 * kMiB);
  EXPECT_EQ(status.code(), Code::out_of_memory);
  EXPECT_NE(status.message().find("room for " + std::to_string(2 * kMiB)), std::string::npos) << status.message();
  EXPECT_EQ(arenas.promised(), 0u);
}

TEST(MappedArena, WhatAnotherIsAboutToTakeIsNotGivenTwice) {
  MappedArenas* all = nullptr;
  Status second;
  int looks = 0;
  MappedArenas arenas(2, [&]() -> std::uint64_t {
    if (++looks == 1) {  // the first is about to make its pages, which nobody counts yet
      second = (*all)[1].commit(0, 4 * kMiB);
    }
    return 6 * kMiB;
  });
  all = &arenas;
  EXPECT_TRUE(arenas[0].commit(0, 4 * kMiB));
  EXPECT_EQ(second.code(), Code::out_of_memory);
  EXPECT_EQ(arenas.promised(), 0u);
}

TEST(MappedArena, RanksThatAskAtOnceNeverTakeMoreThanThereIs) {
  constexpr int kRanks = 4;
  constexpr std::uint64_t kAll = 40 * kMiB;
  MappedArenas* all = nullptr;
  MappedArenas arenas(kRanks, [&] {
    const std::uint64_t used = all->used();
    return kAll - std::min(kAll, used);
  });
  all = &arenas;
  std::atomic<int> given{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (std::size_t at = 0; at + 3 * kMiB <= 64 * kMiB; at += 3 * kMiB) {
        given += arenas[rank].commit(at, 3 * kMiB) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LE(arenas.used(), kAll);
  EXPECT_EQ(arenas.used(), static_cast<std::uint64_t>(given) * 3 * kMiB) << "what is refused leaves nothing";
  // What a rank is making counts as promised and as made for a moment, in which another may be refused.
  EXPECT_LE(given, 13) << "no more than there is room for";
  EXPECT_GE(given, 13 - (kRanks - 1)) << "and about as much";
  EXPECT_EQ(arenas.promised(), 0u);
}

}  // namespace
}  // namespace ronde::transport
