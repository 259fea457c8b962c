#include "transport/loopback/loopback.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "transport/bell.h"

namespace ronde::transport {
namespace {

TEST(Loopback, ArenasSeeTheSameRegions) {
  for (int size : {1, 2, 3, 8}) {
    RegionLayout layout = RegionLayout::for_size(size);
    const auto world = make_loopback_world(size, layout);
    ASSERT_EQ(world.size(), static_cast<std::size_t>(size));
    layout.heap_bytes = kLoopbackHeapBytes;
    for (int rank = 0; rank < size; ++rank) {
      const HostArena& arena = *world[static_cast<std::size_t>(rank)];
      EXPECT_EQ(arena.rank(), rank);
      EXPECT_EQ(arena.size(), size);
      EXPECT_EQ(arena.layout(), layout);
      EXPECT_GE(arena.bells().own_fd(), 0);
      for (int peer = 0; peer < size; ++peer) {
        EXPECT_EQ(arena.region(peer), world[0]->region(peer));
        EXPECT_EQ(arena.process(peer).info.host, "loopback");
        EXPECT_EQ(arena.process(peer).info.pid, ::getpid());
        EXPECT_EQ(arena.process(peer).end_fd, -1);
        EXPECT_EQ(arena.control(peer).bell.state.load(), kAwake);
      }
      EXPECT_EQ(arena.region(rank)[layout.total_bytes() - 1], std::byte{0});
    }
  }
}

TEST(Loopback, OutlivesItsFirstArena) {
  auto world = make_loopback_world(2, RegionLayout::for_size(2));
  ASSERT_EQ(world.size(), 2u);
  world[0].reset();
  world[1]->control(0).ticks.published.value.store(7);
  Sleeper(world[1]->control(1).bell).arm(kEngineSleeps);
  world[1]->bells().ring(1);
  pollfd entry{world[1]->bells().own_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
}

TEST(Loopback, RingingTheOthersRingsThemAndNotOneself) {
  const auto world = make_loopback_world(3, RegionLayout::for_size(3));
  ASSERT_EQ(world.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    Sleeper(world[0]->control(rank).bell).arm(kEngineSleeps);
  }
  world[1]->bells().ring_others();
  for (int rank = 0; rank < 3; ++rank) {
    pollfd entry{world[static_cast<std::size_t>(rank)]->bells().own_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 0), rank == 1 ? 0 : 1);
  }
}

TEST(Loopback, RefusesALayoutThatCannotWork) {
  RegionLayout layout = RegionLayout::for_size(2);
  EXPECT_TRUE(make_loopback_world(3, layout).empty());
  layout.slot_bytes = 5;
  EXPECT_TRUE(make_loopback_world(2, layout).empty());
}

TEST(SoloArena, IsAWorldOfOne) {
  const auto arena = make_solo_arena();
  ASSERT_NE(arena, nullptr);
  EXPECT_EQ(arena->size(), 1);
  EXPECT_EQ(arena->rank(), 0);
  arena->bells().ring_others();
  arena->bells().ring(0);
  EXPECT_GT(arena->layout().heap_bytes, kLoopbackHeapBytes) << "tensors of a job of one rank may live there too";
  ASSERT_TRUE(arena->own_heap().commit(kLoopbackHeapBytes, 4096));
  arena->heap(0)[kLoopbackHeapBytes] = std::byte{1};
}

}  // namespace
}  // namespace ronde::transport
