#include "engine/replay/patience.h"

#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

using agreement::Reason;

constexpr Nanoseconds kStart = kSecond;
constexpr bool kHalf = true;
constexpr bool kFull = false;

TEST(Patience, AHalfFullBucketThatSomebodyWaitsForWaitsTwoMilliseconds) {
  Patience patience;
  EXPECT_EQ(patience.waited(1, kStart), 0);
  EXPECT_EQ(patience.judge(kStart, kHalf, true, 0), Reason::none);
  EXPECT_EQ(patience.judge(kStart + 2 * kMillisecond - 1, kHalf, true, 0), Reason::none);
  EXPECT_EQ(patience.judge(kStart + 2 * kMillisecond, kHalf, true, 0), Reason::stall);
}

TEST(Patience, ItCountsFromTheLookThatSawSomebodyWait) {
  Patience patience;
  patience.waited(1, kStart);
  EXPECT_EQ(patience.judge(kStart + kMillisecond, kHalf, false, 0), Reason::none);
  EXPECT_EQ(patience.judge(kStart + 10 * kMillisecond, kHalf, false, 0), Reason::none);
  EXPECT_EQ(patience.judge(kStart + 11 * kMillisecond, kHalf, true, 0), Reason::none);
  EXPECT_EQ(patience.judge(kStart + 13 * kMillisecond, kHalf, true, 0), Reason::stall);
  EXPECT_EQ(patience.waited(2, kStart + 14 * kMillisecond), 0) << "another instance";
  EXPECT_EQ(patience.judge(kStart + 14 * kMillisecond, kHalf, true, 0), Reason::none);
}

TEST(Patience, ABucketThatTakesLongToFillIsGivenEightTimesAsLong) {
  Patience patience;
  Nanoseconds now = kStart;
  for (int i = 0; i < 40; ++i) {
    patience.begun(now);
    patience.filled(now + 10 * kMillisecond);
    now += kSecond;
  }
  patience.waited(41, now);
  EXPECT_EQ(patience.judge(now, kHalf, true, 0), Reason::none);
  EXPECT_EQ(patience.judge(now + 70 * kMillisecond, kHalf, true, 0), Reason::none);
  EXPECT_EQ(patience.judge(now + 80 * kMillisecond, kHalf, true, 0), Reason::stall);
}

TEST(Patience, AHalfFullBucketThatNobodyWaitsForIsLeftAsAFullOneIs) {
  Patience patience;
  patience.waited(1, kStart);
  EXPECT_EQ(patience.judge(kStart + kSecond - 1, kHalf, false, 0), Reason::none);
  EXPECT_EQ(patience.judge(kStart + kSecond, kHalf, false, 0), Reason::stall);
}

TEST(Patience, WithPeersItDoublesUpToAMinute) {
  Patience patience;
  Nanoseconds now = kStart;
  std::uint64_t instance = 0;
  for (const Nanoseconds seconds : {1, 2, 4, 8, 16, 32, 64, 64}) {
    patience.waited(++instance, now);
    EXPECT_EQ(patience.judge(now + seconds * kSecond - 1, kFull, true, 0), Reason::none) << seconds;
    now += seconds * kSecond;
    EXPECT_EQ(patience.judge(now, kFull, true, 0), Reason::late_peers) << seconds;
  }
}

TEST(Patience, ThatPeersWereLateIsForgottenOnceSeveralWereNot) {
  Patience patience;
  Nanoseconds now = kStart;
  for (const std::uint64_t instance : {1, 2, 3}) {
    patience.waited(instance, now);
    now += 10 * kSecond;
    EXPECT_EQ(patience.judge(now, kFull, true, 0), Reason::late_peers);
  }
  patience.waited(12, now);
  EXPECT_EQ(patience.judge(now + kSecond, kFull, true, 0), Reason::late_peers);
  patience.waited(13, now);
  EXPECT_EQ(patience.judge(now + 2 * kSecond - 1, kFull, true, 0), Reason::none) << "it came right after";
  EXPECT_EQ(patience.judge(now + 2 * kSecond, kFull, true, 0), Reason::late_peers);
  patience.restart();
  patience.waited(20, now);
  EXPECT_EQ(patience.judge(now + kSecond, kFull, true, 0), Reason::late_peers) << "of the epoch, all the others";
}

TEST(Patience, AStallIsReportedInTime) {
  Patience patience;
  patience.waited(1, kStart);
  EXPECT_EQ(patience.judge(kStart + 99 * kMillisecond, kFull, true, 200 * kMillisecond), Reason::none);
  EXPECT_EQ(patience.judge(kStart + 100 * kMillisecond, kFull, true, 200 * kMillisecond), Reason::late_peers);
}

TEST(Patience, AnotherEpochBeginsAnew) {
  Patience patience;
  patience.waited(1, kStart);
  EXPECT_EQ(patience.waited(1, kStart + 5), 5);
  patience.restart();
  EXPECT_EQ(patience.waited(1, kStart + 7), 0);
}

}  // namespace
}  // namespace ronde::engine
