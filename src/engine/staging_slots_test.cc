#include "engine/staging_slots.h"

#include <gtest/gtest.h>

#include <set>

#include "transport/loopback/loopback.h"

namespace ronde::engine {
namespace {

class StagingSlotsTest : public testing::Test {
 protected:
  StagingSlotsTest() : arenas_(transport::make_loopback_world(2, transport::RegionLayout::for_size(2))) {}

  std::vector<std::unique_ptr<transport::HostArena>> arenas_;
  std::shared_ptr<transport::SharedHeap> heap_ = std::make_shared<transport::SharedHeap>(*arenas_[0]);
  StagingSlots slots_;
};

TEST_F(StagingSlotsTest, ThePeerFindsEachSlotAtItsPlace) {
  ASSERT_TRUE(slots_.open(*heap_, arenas_[0].get()));
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
    const std::byte* seen = arenas_[1]->heap(0) + place;
    EXPECT_EQ(seen[0], std::byte(next));
    EXPECT_EQ(seen[StagingSlots::kSlotBytes - 1], std::byte(next + 1));
    ++next;
  }
}

TEST_F(StagingSlotsTest, WhatIsGivenBackIsTakenAgain) {
  ASSERT_TRUE(slots_.open(*heap_, arenas_[0].get()));
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
  heap_->close();
  EXPECT_FALSE(slots_.open(*heap_, arenas_[0].get()));
  EXPECT_FALSE(slots_.open(*std::make_shared<transport::SharedHeap>(*arenas_[0]), arenas_[0].get())) << "asked once";
}

TEST_F(StagingSlotsTest, WithoutSharedMemoryThereAreNone) { EXPECT_FALSE(slots_.open(*heap_, nullptr)); }

}  // namespace
}  // namespace ronde::engine
