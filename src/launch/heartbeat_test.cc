#include "launch/heartbeat.h"

#include <gtest/gtest.h>

namespace ronde::launch {
namespace {

constexpr Nanoseconds kStart = 100 * kSecond;

TEST(Heartbeat, ABeatIsDueAtOnceAndThenEachSecond) {
  Heartbeat heartbeat(kStart);
  EXPECT_EQ(heartbeat.next_beat(), kNever);
  EXPECT_FALSE(heartbeat.take_beat(kStart + kSecond)) << "not before the host has greeted";
  heartbeat.start(kStart + 2 * kSecond);
  EXPECT_EQ(heartbeat.next_beat(), kStart + 2 * kSecond);
  EXPECT_TRUE(heartbeat.take_beat(kStart + 2 * kSecond));
  EXPECT_FALSE(heartbeat.take_beat(kStart + 2 * kSecond));
  EXPECT_FALSE(heartbeat.take_beat(kStart + 3 * kSecond - 1));
  EXPECT_TRUE(heartbeat.take_beat(kStart + 3 * kSecond + 5)) << "late by a little";
  EXPECT_EQ(heartbeat.next_beat(), kStart + 4 * kSecond + 5) << "none is made up for";
}

TEST(Heartbeat, AHostThatSaysNothingForTenSecondsIsLost) {
  Heartbeat heartbeat(kStart);
  for (Nanoseconds now = kStart; now < kStart + kHostSilence; now += kSecond) {
    heartbeat.look(now);
    EXPECT_FALSE(heartbeat.is_lost(now));
  }
  EXPECT_EQ(heartbeat.lost_at(), kStart + kHostSilence);
  heartbeat.look(kStart + kHostSilence - 1);
  EXPECT_FALSE(heartbeat.is_lost(kStart + kHostSilence - 1));
  heartbeat.look(kStart + kHostSilence);
  EXPECT_TRUE(heartbeat.is_lost(kStart + kHostSilence));
}

TEST(Heartbeat, WhateverComesIsASignOfLife) {
  Heartbeat heartbeat(kStart);
  heartbeat.note_heard(kStart + 4 * kSecond);
  EXPECT_EQ(heartbeat.lost_at(), kStart + 4 * kSecond + kHostSilence);
}

TEST(Heartbeat, APauseOfTheLaunchersOwnIsNotTheHostsSilence) {
  Heartbeat heartbeat(kStart);
  heartbeat.look(kStart + Heartbeat::kOwnPause);
  EXPECT_EQ(heartbeat.lost_at(), kStart + kHostSilence) << "no pause yet";
  const Nanoseconds after = kStart + 60 * kSecond;  // Ctrl-Z, say
  heartbeat.look(after);
  EXPECT_FALSE(heartbeat.is_lost(after));
  EXPECT_EQ(heartbeat.lost_at(), after + kHostSilence);
}

}  // namespace
}  // namespace ronde::launch
