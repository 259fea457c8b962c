#include "observe/event_buffer.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace ronde::observe {
namespace {

constexpr std::chrono::milliseconds kAtOnce(0);
constexpr std::chrono::hours kForever(24);

struct Taken {
  bool is_any = false;
  std::string events = "of before";
  std::uint64_t lost = 77;
};

Taken take(EventBuffer& buffer, std::chrono::milliseconds gather = kAtOnce) {
  Taken taken;
  taken.is_any = buffer.take(taken.events, taken.lost, gather);
  return taken;
}

TEST(EventBuffer, GivesAllThatWaitsInOrder) {
  EventBuffer buffer(100);
  EXPECT_TRUE(buffer.put("a"));
  EXPECT_TRUE(buffer.put("bc"));
  Taken taken = take(buffer);
  EXPECT_TRUE(taken.is_any);
  EXPECT_EQ(taken.events, ",\na,\nbc");
  EXPECT_EQ(taken.lost, 0u);
  EXPECT_TRUE(buffer.put("d"));
  EXPECT_EQ(take(buffer).events, ",\nd");
}

TEST(EventBuffer, RoomCountsSeparatorsAndWhatFindsNoneIsLost) {
  EventBuffer buffer(10);
  EXPECT_TRUE(buffer.put("123"));
  EXPECT_FALSE(buffer.put("1234", 0, 3)) << "11 bytes";
  EXPECT_TRUE(buffer.put("123")) << "10 bytes";
  EXPECT_FALSE(buffer.put("")) << "its separator has no room";
  EXPECT_EQ(buffer.lost(), 4u);
  Taken taken = take(buffer);
  EXPECT_EQ(taken.events, ",\n123,\n123");
  EXPECT_EQ(taken.lost, 4u);
  EXPECT_TRUE(buffer.put("12345678")) << "there is room again";
  EXPECT_EQ(take(buffer).lost, 0u) << "told already";
  EXPECT_EQ(buffer.lost(), 4u) << "of all";
}

TEST(EventBuffer, WhatIsReservedIsKeptForItsEvent) {
  EventBuffer buffer(10);
  EXPECT_TRUE(buffer.put("1", 5));
  EXPECT_FALSE(buffer.put("2")) << "2 bytes are left";
  EXPECT_EQ(take(buffer).events, ",\n1");
  EXPECT_FALSE(buffer.put("1234")) << "reserved though what waited has been taken";
  EXPECT_TRUE(buffer.put("123"));
  buffer.put_reserved("end", 5);
  EXPECT_EQ(take(buffer).events, ",\n123,\nend");
  EXPECT_TRUE(buffer.put("12345678")) << "nothing is reserved any more";
}

TEST(EventBuffer, WhatWasLostIsToldOnce) {
  EventBuffer buffer(100);
  buffer.count_lost(5);
  buffer.count_lost();
  ASSERT_TRUE(buffer.put("a"));
  EXPECT_EQ(take(buffer).lost, 6u);
  buffer.count_lost_after_take(1, 6);
  EXPECT_EQ(buffer.lost(), 7u) << "the six were counted before";
  ASSERT_TRUE(buffer.put("b"));
  EXPECT_EQ(take(buffer).lost, 7u);
}

TEST(EventBuffer, AClosedOneGivesTheRestAndEnds) {
  EventBuffer buffer(100);
  ASSERT_TRUE(buffer.put("a"));
  buffer.close();
  EXPECT_EQ(take(buffer, kForever).events, ",\na");
  buffer.count_lost(2);
  Taken taken = take(buffer, kForever);
  EXPECT_TRUE(taken.is_any);
  EXPECT_EQ(taken.events, "");
  EXPECT_EQ(taken.lost, 2u);
  buffer.count_lost_after_take(4, 2);
  EXPECT_FALSE(take(buffer, kForever).is_any) << "nobody is told of a loss for ever";
  EXPECT_EQ(buffer.lost(), 6u);
}

TEST(EventBuffer, TakeWaitsForAnEvent) {
  EventBuffer buffer(100);
  std::jthread other([&] { buffer.put("a"); });
  EXPECT_EQ(take(buffer).events, ",\na");
}

TEST(EventBuffer, TakeGathersUntilHalfTheRoomIsFull) {
  EventBuffer buffer(16);
  std::jthread other([&] {
    for (const char* const event : {"1", "2", "3"}) {
      buffer.put(event);
    }
  });
  const Taken taken = take(buffer, kForever);
  EXPECT_EQ(taken.events.substr(0, 9), ",\n1,\n2,\n3") << "two are 6 bytes, three are 9";
}

TEST(EventBuffer, CloseWakesTheTaker) {
  EventBuffer buffer(100);
  std::jthread other([&] { buffer.close(); });
  while (take(buffer, kForever).is_any) {
  }
}

}  // namespace
}  // namespace ronde::observe
