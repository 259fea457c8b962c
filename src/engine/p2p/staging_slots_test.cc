#include "engine/p2p/staging_slots.h"

#include <gtest/gtest.h>

#include <set>

#include "transport/loopback/testing/host.h"

namespace ronde::engine {
namespace {

class StagingSlotsTest : public testing::Test {
 protected:
  const std::vector<transport::LoopbackRank> ranks_ = transport::loopback_host(2);
  transport::ReachableMemory& memory_ = *ranks_[0].memory;
  StagingSlots slots_;
};

TEST_F(StagingSlotsTest, ThePeerFindsEachSlotAtItsPlace) {
  ASSERT_TRUE(slots_.open(memory_));
  std::set<std::int64_t> places;
  for (int i = 0; i < StagingSlots::kSlots; ++i) {
    ASSERT_FALSE(slots_.is_full());
    const StagingSlots::Slot slot = slots_.take();
    slot.memory[0] = std::byte(i + 1);
    slot.memory[StagingSlots::kSlotBytes - 1] = std::byte(i + 2);
    places.insert(slot.place);
  }
  EXPECT_TRUE(slots_.is_full());
  ASSERT_EQ(places.size(), static_cast<std::size_t>(StagingSlots::kSlots)) << "no two share memory";
  int next = 1;
  for (const std::int64_t place : places) {
    const std::byte* seen = ranks_[1].memory->find(0, place, StagingSlots::kSlotBytes);
    ASSERT_NE(seen, nullptr);
    EXPECT_EQ(seen[0], std::byte(next));
    EXPECT_EQ(seen[StagingSlots::kSlotBytes - 1], std::byte(next + 1));
    ++next;
  }
}

TEST_F(StagingSlotsTest, WhatIsGivenBackIsTakenAgain) {
  ASSERT_TRUE(slots_.open(memory_));
  std::vector<StagingSlots::Slot> taken;
  while (!slots_.is_full()) {
    taken.push_back(slots_.take());
  }
  slots_.give_back(taken[2].number);
  ASSERT_FALSE(slots_.is_full());
  EXPECT_EQ(slots_.take().place, taken[2].place);
  EXPECT_TRUE(slots_.is_full());
}

TEST_F(StagingSlotsTest, WithoutRoomItIsRefusedForGood) {
  memory_.end(true);
  EXPECT_FALSE(slots_.open(memory_));
  EXPECT_FALSE(slots_.open(*ranks_[1].memory)) << "asked once";
}

TEST_F(StagingSlotsTest, WhereMembersDoNotReachEachOthersMemoryThereAreNone) {
  EXPECT_FALSE(slots_.open(*transport::unreached_memory(ranks_[0])));
}

}  // namespace
}  // namespace ronde::engine
