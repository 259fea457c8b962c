#include "transport/hosts/own_arena.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "transport/loopback/loopback.h"

namespace ronde::transport {
namespace {

class OwnArenaTest : public testing::Test {
 protected:
  /// So many that regions for one rank with slots as theirs have the heap at the same place.
  static constexpr int kRanks = 9;

  std::vector<std::unique_ptr<HostArena>> world_ = make_loopback_world(kRanks, RegionLayout::for_size(kRanks));
  std::shared_ptr<HostArena> host_ = std::move(world_[1]);
  OwnArena own_{host_};
};

TEST_F(OwnArenaTest, IsOfOneRankInItsRegionOfTheHost) {
  EXPECT_EQ(own_.rank(), 0);
  EXPECT_EQ(own_.size(), 1);
  EXPECT_EQ(own_.region(0), host_->region(1));
  EXPECT_EQ(own_.heap(0), host_->heap(1));
  EXPECT_EQ(own_.layout().heap_bytes, host_->layout().heap_bytes);
  EXPECT_EQ(own_.process(0).info.pid, host_->process(1).info.pid);
  EXPECT_EQ(own_.process(0).end_fd, -1);
  EXPECT_TRUE(own_.need_slots(1));
}

TEST_F(OwnArenaTest, ItsHeapIsTheHosts) {
  const OwnHeap& hosts = host_->own_heap();
  EXPECT_EQ(own_.own_heap().begin(), hosts.begin());
  EXPECT_EQ(own_.own_heap().size_bytes(), hosts.size_bytes());
  EXPECT_EQ(own_.own_heap().engine_bytes(), hosts.engine_bytes());
  ASSERT_TRUE(own_.own_heap().commit(4096, 4096));
  world_[0]->heap(1)[4096] = std::byte{5};
  EXPECT_EQ(own_.heap(0)[4096], std::byte{5});
  own_.own_heap().withdraw(4096, 1);
  EXPECT_TRUE(hosts.is_withdrawn(4096, 1));
}

TEST_F(OwnArenaTest, WhereTheHeapWouldBeLookedForElsewhereThereIsNone) {
  std::shared_ptr<HostArena> host = std::move(make_loopback_world(3, RegionLayout::for_size(3)).front());
  OwnArena own(host);
  ASSERT_NE(own.layout().heap_offset(), host->layout().heap_offset());
  EXPECT_EQ(own.layout().heap_bytes, 0u);
  EXPECT_EQ(own.heap(0), nullptr);
  EXPECT_EQ(own.own_heap().begin(), nullptr);
  EXPECT_EQ(own.own_heap().size_bytes(), 0u);
  EXPECT_EQ(own.own_heap().offset_of(host->heap(0), 1), -1);
}

TEST_F(OwnArenaTest, ItsBellIsTheRanksAndThereIsNoOther) {
  for (int rank = 0; rank < kRanks; ++rank) {
    Sleeper(host_->control(rank).bell).arm(kEngineSleeps);
  }
  EXPECT_EQ(own_.bells().own_fd(), host_->bells().own_fd());
  own_.bells().ring_others();
  EXPECT_EQ(own_.control(0).bell.state.load(), kEngineSleeps);
  world_[2]->bells().ring(1);
  EXPECT_EQ(own_.control(0).bell.state.load(), kAwake);
  pollfd entry{own_.bells().own_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
  Sleeper(own_.control(0).bell).arm(kEngineSleeps);
  own_.bells().ring(0);
  EXPECT_EQ(own_.control(0).bell.state.load(), kAwake);
  EXPECT_EQ(host_->control(0).bell.state.load(), kEngineSleeps);
}

}  // namespace
}  // namespace ronde::transport
