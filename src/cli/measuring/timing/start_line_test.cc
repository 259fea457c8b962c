#include "cli/measuring/timing/start_line.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace ronde::cli {
namespace {

constexpr std::chrono::seconds kLimit{60};

TEST(StartLine, NobodyLeavesBeforeAllHaveCome) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 200;
  std::vector<StartLineEntry> entries(kRanks);
  std::atomic<int> came{0};
  std::atomic<int> early{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      StartLine line(entries.data(), rank, kRanks, false);
      for (int round = 1; round <= kRounds; ++round) {
        came.fetch_add(1);
        if (line.meet(kLimit) != -1 || came.load() < round * kRanks) {
          early.fetch_add(1);
        }
        line.meet(kLimit);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(early.load(), 0);
}

TEST(StartLine, TimesAndFailuresAreSeenAfterMeeting) {
  std::vector<StartLineEntry> entries(2);
  StartLine here(entries.data(), 0, 2, true);
  std::thread other([&] {
    StartLine there(entries.data(), 1, 2, true);
    there.own().seconds = 3;
    there.own().has_failed = 1;
    there.meet(kLimit);
  });
  here.own().seconds = 2;
  EXPECT_EQ(here.meet(kLimit), -1);
  EXPECT_EQ(here.longest_seconds(), 3);
  EXPECT_TRUE(here.any_failed());
  other.join();
}

TEST(StartLine, OfRanksWithoutMemoryInCommonIsAnExchange) {
  std::vector<StartLineEntry> entries(2);
  std::string why;
  StartLine line(entries.data(), 0, 2, [&] {
    entries[1].seconds = entries[0].seconds + 1;
    entries[1].is_last = 1;
    return why;
  });
  line.own().seconds = 2;
  EXPECT_EQ(line.meet(kLimit), -1);
  EXPECT_EQ(line.longest_seconds(), 3);
  EXPECT_EQ(line.of(1).is_last, 1u);
  EXPECT_EQ(line.line_ns(), 0);
  why = "the wire is cut";
  EXPECT_EQ(line.meet(kLimit), 0);
  EXPECT_EQ(line.failure(), "the wire is cut");
}

TEST(StartLine, NamesARankThatDoesNotCome) {
  std::vector<StartLineEntry> entries(3);
  StartLine first(entries.data(), 0, 3, false);
  StartLine third(entries.data(), 2, 3, false);
  EXPECT_EQ(first.meet(std::chrono::seconds(0)), 1);
  EXPECT_EQ(third.meet(std::chrono::seconds(0)), 1);
}

TEST(StartLine, PingsComeBackAndTheLineGoesOn) {
  std::vector<StartLineEntry> entries(3);
  std::vector<std::thread> threads;
  std::vector<double> found(3, -1);
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      StartLine line(entries.data(), rank, 3, true);
      for (int turn = 0; turn < 3; ++turn) {
        found[static_cast<std::size_t>(rank)] = line.line_ns();
        line.meet(kLimit);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GT(found[0], 0);
  EXPECT_EQ(found[1], 0) << "rank 0 has the clock";
  EXPECT_EQ(found[2], 0);
}

TEST(StartLine, NoPingsWhereTheyWouldSayNothing) {
  std::vector<StartLineEntry> entries(2);
  EXPECT_EQ(StartLine(entries.data(), 0, 1, true).line_ns(), 0) << "alone";
  EXPECT_EQ(StartLine(entries.data(), 0, 2, false).line_ns(), 0) << "more ranks than cores";
}

}  // namespace
}  // namespace ronde::cli
