// What an arena is made of. Its heap: mapped_heap_test.cc. Pages and descriptors between processes: shm/heap_test.cc.
#include "transport/arena/mapped_arena.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "transport/bell.h"

namespace ronde::transport {
namespace {

/// One arena for each rank of a host, over one mapping.
std::vector<std::unique_ptr<MappedArena>> arenas_over(const RegionLayout& layout) {
  const std::size_t bytes = layout.heap_offset() + layout.heap_bytes;
  const auto mapping =
      std::make_shared<const Mapping>(Mapping::anonymous(static_cast<std::size_t>(layout.size) * bytes).value());
  std::vector<std::shared_ptr<const UniqueFd>> bells;
  for (int rank = 0; rank < layout.size; ++rank) {
    bells.push_back(std::make_shared<const UniqueFd>(make_bell_fd().value()));
  }
  std::vector<std::unique_ptr<MappedArena>> arenas;
  for (int rank = 0; rank < layout.size; ++rank) {
    std::vector<MappedArena::Member> members(static_cast<std::size_t>(layout.size));
    for (std::size_t peer = 0; peer < members.size(); ++peer) {
      members[peer].mapping = mapping;
      members[peer].region = mapping->base() + peer * bytes;
      members[peer].bell = bells[peer];
      members[peer].info = {"host", 100 + static_cast<int>(peer)};
    }
    arenas.push_back(std::make_unique<MappedArena>(rank, layout, std::move(members)));
  }
  return arenas;
}

RegionLayout small_layout(int size) {
  RegionLayout layout = RegionLayout::for_size(size);
  layout.heap_bytes = 8 * kHugePageBytes;
  return layout;
}

TEST(MappedArena, KnowsTheRegionsAndProcessesOfAllRanks) {
  for (const int size : {1, 2, 3}) {
    const RegionLayout layout = small_layout(size);
    const auto arenas = arenas_over(layout);
    for (int rank = 0; rank < size; ++rank) {
      const MappedArena& arena = *arenas[static_cast<std::size_t>(rank)];
      EXPECT_EQ(arena.rank(), rank);
      EXPECT_EQ(arena.size(), size);
      EXPECT_EQ(arena.layout(), layout);
      for (int peer = 0; peer < size; ++peer) {
        EXPECT_EQ(arena.region(peer), arenas[static_cast<std::size_t>(peer)]->region(peer));
        EXPECT_EQ(arena.heap(peer), arena.region(peer) + layout.heap_offset());
        EXPECT_EQ(arena.process(peer).info.pid, 100 + peer);
        EXPECT_EQ(arena.process(peer).end_fd, -1);
      }
    }
  }
}

TEST(MappedArena, HasTheHeapOfItsOwnRegion) {
  const auto arenas = arenas_over(small_layout(2));
  OwnHeap& heap = arenas[1]->own_heap();
  EXPECT_EQ(heap.begin(), arenas[0]->heap(1));
  EXPECT_EQ(heap.size_bytes(), 8 * kHugePageBytes);
  EXPECT_EQ(heap.engine_bytes(), kHugePageBytes);
  ASSERT_TRUE(heap.commit(4096, 4096));
  arenas[0]->prefault(4096, 4096);
  arenas[0]->heap(1)[4096] = std::byte{5};
  EXPECT_EQ(heap.begin()[4096], std::byte{5});
  EXPECT_TRUE(arenas[1]->need_slots(SIZE_MAX));
}

TEST(MappedArena, WithoutAHeapHasNone) {
  RegionLayout layout = small_layout(2);
  layout.heap_bytes = 0;
  const auto arenas = arenas_over(layout);
  EXPECT_EQ(arenas[0]->heap(1), nullptr);
  EXPECT_EQ(arenas[0]->own_heap().begin(), nullptr);
  EXPECT_EQ(arenas[0]->own_heap().engine_bytes(), 0u);
  EXPECT_EQ(arenas[0]->own_heap().commit(0, 1).code(), Code::out_of_memory);
}

TEST(MappedArena, RingsTheBellsInThePeersRegions) {
  const auto arenas = arenas_over(small_layout(3));
  for (int rank = 0; rank < 3; ++rank) {
    Sleeper(arenas[0]->control(rank).bell).arm(kEngineSleeps);
  }
  arenas[1]->bells().ring(2);
  EXPECT_EQ(arenas[2]->control(2).bell.state.load(), kAwake);
  EXPECT_EQ(arenas[0]->control(0).bell.state.load(), kEngineSleeps);
  pollfd entry{arenas[2]->bells().own_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
}

}  // namespace
}  // namespace ronde::transport
