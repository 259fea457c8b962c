#include "transport/arena/memory_promises.h"

#include <gtest/gtest.h>

namespace ronde::transport {
namespace {

class MemoryPromisesTest : public testing::Test {
 protected:
  /// Of a rank of a host with two, whose machine has as much room as `room_`.
  MemoryPromises of(int own) {
    return MemoryPromises(own, {&lines_[0], &lines_[1]}, [this] {
      ++looks_;
      return room_;
    });
  }
  std::uint64_t promised(std::size_t rank) const { return lines_[rank].bytes.load(); }

  PromiseLine lines_[2];
  std::uint64_t room_ = 10;
  int looks_ = 0;
};

TEST_F(MemoryPromisesTest, APromiseLastsUntilItIsKept) {
  const MemoryPromises second = of(1);
  {
    MemoryPromises::Promise promise = second.promise(7);
    EXPECT_EQ(promised(1), 7u);
    EXPECT_EQ(promised(0), 0u) << "a rank's line has one writer";
    promise.keep(3);
    EXPECT_EQ(promised(1), 4u);
    const MemoryPromises::Promise another = second.promise(1);
    EXPECT_EQ(promised(1), 5u);
  }
  EXPECT_EQ(promised(1), 0u) << "what is not made by then never will be";
}

TEST_F(MemoryPromisesTest, OfNothingOrOfOneByteCountsAsMuch) {
  const MemoryPromises first = of(0);
  room_ = 0;
  const MemoryPromises::Promise nothing = first.promise(0);
  EXPECT_EQ(first.lack(), 0u);
  const MemoryPromises::Promise byte = first.promise(1);
  EXPECT_EQ(first.lack(), 1u);
}

TEST_F(MemoryPromisesTest, WhatAllRanksHavePromisedMustFit) {
  const MemoryPromises first = of(0);
  const MemoryPromises second = of(1);
  const MemoryPromises::Promise own = first.promise(6);
  EXPECT_EQ(first.lack(), 0u);
  const MemoryPromises::Promise others = second.promise(4);
  EXPECT_EQ(first.lack(), 0u) << "just enough";
  const MemoryPromises::Promise byte = second.promise(1);
  EXPECT_EQ(first.lack(), 1u);
  EXPECT_EQ(second.lack(), 1u) << "both see each other";
}

TEST_F(MemoryPromisesTest, WhatIsKeptMeanwhileIsLookedForAgain) {
  // The other rank makes what it has promised just before the look at the room, which counts it as used then.
  lines_[1].bytes = 5;
  const MemoryPromises first(0, {&lines_[0], &lines_[1]}, [this]() -> std::uint64_t {
    if (++looks_ == 1) {
      lines_[1].bytes = 0;
    }
    return 5;
  });
  const MemoryPromises::Promise promise = first.promise(5);
  EXPECT_EQ(first.lack(), 0u);
  EXPECT_EQ(looks_, 2);
}

TEST_F(MemoryPromisesTest, WhereOthersPromiseAllTheTimeTheLookEnds) {
  lines_[1].bytes = 1;
  const MemoryPromises first(0, {&lines_[0], &lines_[1]}, [this]() -> std::uint64_t {
    ++looks_;
    ++lines_[1].bytes;
    return 0;
  });
  EXPECT_GT(first.lack(), 0u);
  EXPECT_LE(looks_, 8);
}

TEST(MemoryPromisesHere, ThereIsRoomForAByte) { EXPECT_GT(MemoryPromises::room_here(), 0u); }

}  // namespace
}  // namespace ronde::transport
