// The heap of a region: address space agreed on at the meeting, memory made and given back later.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/memory_room.h"
#include "store/memory_store.h"
#include "transport/arena/mapping.h"
#include "transport/loopback/loopback.h"
#include "transport/shm/testing/processes.h"

namespace ronde::transport {
namespace {

using Arenas = std::vector<std::unique_ptr<HostArena>>;

/// One arena per heap size, each made by a thread of its own.
Arenas meet(const std::vector<std::size_t>& heaps) {
  store::MemoryStore store;
  const int size = static_cast<int>(heaps.size());
  Arenas arenas(heaps.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      RegionLayout layout = RegionLayout::for_size(size);
      layout.heap_bytes = heaps[index];
      auto met = meet_on_host(store, "host", rank, size, layout, 20 * kSecond);
      if (met) {
        arenas[index] = std::move(met).value();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return arenas;
}

constexpr std::size_t kHeap = 16 * kHugePageBytes;

/// Pages of the range that exist, seen through the page tables of this mapping.
std::size_t resident_pages(const std::byte* begin, std::size_t bytes) {
  std::vector<unsigned char> pages(bytes / 4096);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(begin), bytes, pages.data()), 0);
  std::size_t count = 0;
  for (const unsigned char page : pages) {
    count += page & 1u;
  }
  return count;
}

TEST(Heap, RanksReadAndWriteEachOthers) {
  const Arenas arenas = meet({kHeap, kHeap, kHeap});
  for (const auto& arena : arenas) {
    ASSERT_NE(arena, nullptr);
    EXPECT_EQ(arena->layout().heap_bytes, kHeap);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena->heap(arena->rank())) % kHugePageBytes, 0u);
    ASSERT_TRUE(arena->own_heap().commit(8192, 4096));
  }
  for (const auto& arena : arenas) {
    arena->prefault(8192, 4096);
    for (int peer = 0; peer < 3; ++peer) {
      arena->heap(peer)[8192 + arena->rank()] = static_cast<std::byte>(10 * peer + arena->rank() + 1);
    }
  }
  for (const auto& arena : arenas) {
    for (int peer = 0; peer < 3; ++peer) {
      for (int writer = 0; writer < 3; ++writer) {
        EXPECT_EQ(arena->heap(peer)[8192 + writer], static_cast<std::byte>(10 * peer + writer + 1));
      }
    }
  }
}

TEST(Heap, AllTakeTheSmallestOffered) {
  for (const auto& arena : meet({kHeap, 4 * kHugePageBytes, 8 * kHugePageBytes})) {
    ASSERT_NE(arena, nullptr);
    EXPECT_EQ(arena->layout().heap_bytes, 4 * kHugePageBytes);
    EXPECT_TRUE(arena->own_heap().commit(arena->layout().heap_bytes - 4096, 4096));
    EXPECT_EQ(arena->own_heap().commit(arena->layout().heap_bytes, 4096).code(), Code::out_of_memory);
  }
  for (const auto& arena : meet({kHeap, 0})) {
    ASSERT_NE(arena, nullptr);
    EXPECT_EQ(arena->heap(0), nullptr);
    EXPECT_EQ(arena->own_heap().commit(0, 1).code(), Code::out_of_memory);
    EXPECT_TRUE(arena->own_heap().commit(0, 0));
    EXPECT_EQ(arena->own_heap().offset_of(arena->region(arena->rank()), 0), -1);
    arena->own_heap().discard(0, 4096);
  }
}

TEST(Heap, ExistsOnlyWhereCommittedAndIsZeroAfterDiscard) {
  const Arenas arenas = meet({kHeap, kHeap});
  ASSERT_TRUE(arenas[0] && arenas[1]);
  HostArena& arena = *arenas[0];
  std::byte* const heap = arena.heap(0);
  EXPECT_EQ(resident_pages(heap, kHeap), 0u);
  ASSERT_TRUE(arena.own_heap().commit(100, 3 * 4096));
  EXPECT_EQ(resident_pages(heap, kHeap), 4u) << "the pages that the range touches";
  ASSERT_TRUE(arena.own_heap().commit(kHugePageBytes, 5 * kHugePageBytes));
  EXPECT_EQ(resident_pages(heap + kHugePageBytes, 5 * kHugePageBytes), 5 * kHugePageBytes / 4096);
  heap[2 * kHugePageBytes] = std::byte{7};
  heap[100] = std::byte{8};
  arena.own_heap().discard(kHugePageBytes, 5 * kHugePageBytes);
  EXPECT_EQ(resident_pages(heap + kHugePageBytes, 5 * kHugePageBytes), 0u);
  EXPECT_EQ(heap[100], std::byte{8});
  ASSERT_TRUE(arena.own_heap().commit(kHugePageBytes, 5 * kHugePageBytes));
  EXPECT_EQ(heap[2 * kHugePageBytes], std::byte{0});
  EXPECT_EQ(arenas[1]->heap(0)[2 * kHugePageBytes], std::byte{0});
  // Only whole pages go.
  arena.own_heap().discard(50, 4096);
  EXPECT_EQ(heap[100], std::byte{8});
}

TEST(Heap, WhatTheMachineCannotGiveIsRefusedAndNothingIsTaken) {
  const std::uint64_t room = memory_room();
  if (room >= kMostHeapBytes) {
    return;  // a machine with a quarter of a terabyte to spare would give it
  }
  const Arenas arenas = meet({kMostHeapBytes / 2, kMostHeapBytes / 2});
  ASSERT_TRUE(arenas[0] && arenas[1]);
  if (const std::size_t heap = arenas[0]->layout().heap_bytes; heap > room) {
    const Status status = arenas[0]->own_heap().commit(0, heap);
    EXPECT_EQ(status.code(), Code::out_of_memory) << status.message();
    EXPECT_NE(status.message().find(std::to_string(heap)), std::string::npos);
    EXPECT_EQ(resident_pages(arenas[0]->heap(0), 64 * kHugePageBytes), 0u);
  }
}

TEST(Heap, KnowsWhatLiesInIt) {
  const Arenas arenas = meet({kHeap, kHeap});
  ASSERT_TRUE(arenas[0] && arenas[1]);
  const HostArena& arena = *arenas[0];
  EXPECT_EQ(arena.own_heap().offset_of(arena.heap(0), kHeap), 0);
  EXPECT_EQ(arena.own_heap().offset_of(arena.heap(0) + 12, 8), 12);
  EXPECT_EQ(arena.own_heap().offset_of(arena.heap(0) + kHeap, 0), static_cast<std::int64_t>(kHeap));
  EXPECT_EQ(arena.own_heap().offset_of(arena.heap(0) + 1, kHeap), -1);
  EXPECT_EQ(arena.own_heap().offset_of(arena.heap(1), 8), -1);
  EXPECT_EQ(arena.own_heap().offset_of(&arena, 8), -1);
  EXPECT_EQ(arena.own_heap().offset_of(arena.region(0), 8), -1);
}

/// What each page of the range begins with, as this mapping has it.
std::vector<int> firsts_of(const std::byte* begin, std::size_t pages) {
  std::vector<int> values;
  for (std::size_t page = 0; page < pages; ++page) {
    values.push_back(static_cast<int>(begin[page * 4096]));
  }
  return values;
}

TEST(Heap, WhatIsMadePrivateNoPeerStoresInto) {
  const Arenas arenas = meet({kHeap, kHeap});
  ASSERT_TRUE(arenas[0] && arenas[1]);
  HostArena& arena = *arenas[0];
  std::byte* const own = arena.heap(0);
  std::byte* const late = arenas[1]->heap(0);
  ASSERT_TRUE(arena.own_heap().commit(0, 8 * 4096));
  std::fill_n(own, 8 * 4096, std::byte{1});
  // The second page to the sixth, a part only of these two.
  const std::size_t begin = 4096 + 100;
  const std::size_t bytes = 4 * 4096;
  EXPECT_EQ(arena.own_heap().offset_of(own + begin, bytes), static_cast<std::int64_t>(begin));
  arena.own_heap().withdraw(begin, bytes);
  EXPECT_TRUE(arena.own_heap().is_withdrawn(begin, bytes));
  EXPECT_EQ(arena.own_heap().offset_of(own + begin, bytes), -1);
  EXPECT_EQ(arena.own_heap().offset_of(own + 4096, 1), -1) << "of these pages nothing is known any more";
  EXPECT_EQ(arena.own_heap().offset_of(own + 4095, 1), 4095);
  EXPECT_EQ(arena.own_heap().offset_of(own + 6 * 4096, 4096), 6 * 4096);
  ASSERT_TRUE(arena.own_heap().make_private(begin, bytes));
  EXPECT_EQ(std::count(own, own + begin, std::byte{1}), static_cast<std::ptrdiff_t>(begin));
  EXPECT_EQ(std::count(own + begin + bytes, own + 8 * 4096, std::byte{1}),
            static_cast<std::ptrdiff_t>(8 * 4096 - begin - bytes));
  std::fill_n(own, 8 * 4096, std::byte{2});
  std::fill_n(late, 8 * 4096, std::byte{3});
  EXPECT_EQ(firsts_of(own, 8), (std::vector<int>{3, 2, 2, 2, 2, 2, 3, 3})) << "the others are shared as before";
  EXPECT_EQ(std::count(own + 4096, own + 6 * 4096, std::byte{2}), 5 * 4096);
  // Once more, and more of it: what is private stays as it is.
  arena.own_heap().withdraw(4 * 4096, 3 * 4096);
  ASSERT_TRUE(arena.own_heap().make_private(4 * 4096, 3 * 4096));
  std::fill_n(late, 8 * 4096, std::byte{4});
  EXPECT_EQ(firsts_of(own, 6), (std::vector<int>{4, 2, 2, 2, 2, 2}));
  EXPECT_NE(firsts_of(own, 8)[6], 4);
  EXPECT_EQ(firsts_of(own, 8)[7], 4);
  arena.own_heap().discard(0, 8 * 4096);
  EXPECT_EQ(firsts_of(own + 2 * 4096, 3), std::vector<int>(3, 0)) << "their memory is given back";
  EXPECT_EQ(firsts_of(own, 1), std::vector<int>{0}) << "and that of the others";
}

/// Stores beside the range while its pages are replaced again and again.
TEST(Heap, NoStoreBesideWhatIsMadePrivateIsLost) {
  constexpr std::size_t kTimes = 200;
  const Arenas arenas = meet({kHeap, kHeap});
  ASSERT_TRUE(arenas[0] && arenas[1]);
  HostArena& arena = *arenas[0];
  ASSERT_TRUE(arena.own_heap().commit(0, (2 * kTimes + 1) * 4096));
  std::atomic<std::size_t> at{0};
  std::atomic<int> lost{0};
  std::thread writer([&] {
    for (std::uint32_t value = 1; at < kTimes; ++value) {
      // In front of the range, in its first page; behind it, in its last one.
      const std::size_t first = 2 * 4096 * at.load();
      for (const std::size_t place : {first + 64, first + 2 * 4096 - 64}) {
        auto* const word = reinterpret_cast<volatile std::uint32_t*>(arena.heap(0) + place);
        *word = value;
        lost += *word != value ? 1 : 0;
      }
    }
  });
  for (std::size_t i = 0; i < kTimes; ++i) {
    at = i;
    arena.own_heap().withdraw(2 * 4096 * i + 1024, 4096 + 2048);
    EXPECT_TRUE(arena.own_heap().make_private(2 * 4096 * i + 1024, 4096 + 2048));
  }
  at = kTimes;
  writer.join();
  EXPECT_EQ(lost, 0);
}

TEST(Heap, OfTheOwnRankOutlivesTheArenaWhileSomebodyHoldsIt) {
  Arenas arenas = meet({kHeap, kHeap});
  ASSERT_TRUE(arenas[0] && arenas[1]);
  ASSERT_TRUE(arenas[0]->own_heap().commit(0, 4096) && arenas[1]->own_heap().commit(0, 4096));
  std::byte* const own = arenas[0]->heap(0);
  std::byte* const peers = arenas[0]->heap(1);
  own[5] = std::byte{5};
  std::shared_ptr<const void> keep = arenas[0]->own_heap().memory();
  arenas.clear();
  EXPECT_EQ(own[5], std::byte{5});
  own[6] = std::byte{6};
  unsigned char page = 0;
  EXPECT_EQ(::mincore(peers, 4096, &page), -1) << "the peer's region is unmapped";
  EXPECT_EQ(errno, ENOMEM);
  keep.reset();
  EXPECT_EQ(::mincore(own, 4096, &page), -1);
}

TEST(Heap, OfLoopbackIsOneForAll) {
  const auto world = make_loopback_world(3, RegionLayout::for_size(3));
  ASSERT_EQ(world.size(), 3u);
  for (const auto& arena : world) {
    EXPECT_EQ(arena->layout().heap_bytes, kLoopbackHeapBytes);
    ASSERT_TRUE(arena->own_heap().commit(0, 4096));
    arena->prefault(0, 4096);
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(arena->heap(peer), world[0]->heap(peer));
    }
    arena->heap(arena->rank())[0] = std::byte{1};
    arena->own_heap().discard(0, 4096);
    ASSERT_TRUE(arena->own_heap().commit(0, 4096));
    EXPECT_EQ(arena->heap(arena->rank())[0], std::byte{0});
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these reserve terabytes of address space

TEST(Heap, IsAsLargeAsTheAddressSpaceAllows) {
  const pid_t child = ::fork();
  if (child == 0) {
    const RegionLayout layout = RegionLayout::for_size(2);
    const rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};
    bool fine = possible_heap_bytes(layout) == kMostHeapBytes && ::setrlimit(RLIMIT_AS, &limit) == 0;
    fine = fine && possible_heap_bytes(layout) == (std::size_t{128} << 20);
    const rlimit nothing{1 << 20, 1 << 20};
    fine = fine && ::setrlimit(RLIMIT_AS, &nothing) == 0 && possible_heap_bytes(layout) == 0;
    ::_exit(fine ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(::waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
}

TEST(Heap, StaysBelowTheLimitOfFiles) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{64 << 20, 64 << 20};
    const bool set = ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
    ::_exit(set && possible_heap_bytes(RegionLayout::for_size(2)) == (62 << 20) ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(::waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
}

TEST(HeapProcesses, MeetUnderALimitOfAddressSpace) {
  // The second rank may have less than the first; both end with the same.
  const auto results = run_processes(RegionLayout::for_size(2), [](HostArena& arena) {
    return arena.layout().heap_bytes == kMostHeapBytes && arena.own_heap().commit(kMostHeapBytes - 4096, 4096).is_ok();
  });
  EXPECT_EQ(results, std::vector<int>(2, 0));
  const rlimit limit{std::size_t{2} << 30, RLIM_INFINITY};
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  const auto limited = run_processes(RegionLayout::for_size(2), [](HostArena& arena) {
    return arena.layout().heap_bytes == (std::size_t{256} << 20) && arena.own_heap().commit(0, 1 << 20).is_ok();
  });
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(limited, std::vector<int>(2, 0));
}

#endif

TEST(HeapProcesses, OfADeadPeerCanStillBeReadAndGoesWithTheLastMapping) {
  RegionLayout layout = RegionLayout::for_size(2);
  layout.heap_bytes = kHeap;
  const auto results = run_processes(layout, [](HostArena& arena) {
    if (!arena.own_heap().commit(0, 4 * kHugePageBytes).is_ok()) {
      return false;
    }
    auto& word = *reinterpret_cast<std::atomic<std::uint64_t>*>(arena.heap(1));
    if (arena.rank() == 1) {
      arena.heap(1)[3 * kHugePageBytes] = std::byte{9};
      word.store(1, std::memory_order_release);
      ::raise(SIGKILL);
    }
    while (word.load(std::memory_order_acquire) == 0) {
      ::sched_yield();
    }
    return arena.heap(1)[3 * kHugePageBytes] == std::byte{9};
  });
  EXPECT_EQ(results[0], 0);
  EXPECT_TRUE(WIFSIGNALED(results[1]));
}

}  // namespace
}  // namespace ronde::transport
