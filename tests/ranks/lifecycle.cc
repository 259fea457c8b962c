// init and shutdown, any number of times in one process, leave nothing behind.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ronde/ronde.hpp>

#include "support/rank_test.h"

namespace ronde::test {
namespace {

std::size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Lines of /proc/self/maps that are files or shared memory: the heap's own growth is not ours.
std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::size_t count = 0;
  while (std::getline(maps, line)) {
    count += line.find('/') != std::string::npos ? 1 : 0;
  }
  return count;
}

void one_round() {
  ronde::init();
  std::vector<float> values(1000, 1);
  ronde::allreduce(values, {.name = "x", .op = Op::sum});
  ASSERT_EQ(values[999], static_cast<float>(size()));
  ronde::shutdown();
}

TEST(Lifecycle, TwoHundredRoundsLeaveNothingBehind) {
  one_round();  // what is made once stays
  const std::size_t threads = entries("/proc/self/task");
  const std::size_t descriptors = entries("/proc/self/fd");
  const std::size_t maps = mappings();
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 200; ++round) {
    one_round();
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%d ranks: %.1f ms a round of init, all-reduce, shutdown\n", size(), seconds / 200 * 1e3);
  EXPECT_EQ(entries("/proc/self/task"), threads);
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(mappings(), maps);
}

TEST(Lifecycle, EpochsCountAndInitTwiceIsOne) {
  ronde::init();
  const std::uint64_t epoch = ronde::topology().epoch;
  ronde::init();
  EXPECT_EQ(ronde::topology().epoch, epoch);
  ronde::shutdown();
  EXPECT_FALSE(ronde::is_initialized());
  ronde::shutdown();
  EXPECT_THROW(ronde::topology(), Error);
  ronde::init();
  EXPECT_EQ(ronde::topology().epoch, epoch + 1);
  ronde::shutdown();
}

TEST(Lifecycle, WhatAllHadSubmittedIsFinishedByShutdown) {
  ronde::init();
  std::vector<float> values(1000000, 1);
  const Ticket ticket = ronde::allreduce_async(values, {.name = "last", .op = Op::sum});
  ronde::shutdown();
  ticket.wait();
  EXPECT_EQ(values.back(), static_cast<float>(size()));
}

TEST(Lifecycle, AnEngineBesideTheSharedOne) {
  ronde::init();
  {
    const Engine own(InitOptions{});
    std::vector<float> a(10, 1);
    std::vector<float> b(10, 2);
    const Ticket shared = ronde::allreduce_async(a, {.name = "x", .op = Op::sum});
    const Ticket mine = ronde::allreduce_async(b, {.name = "x", .op = Op::sum, .engine = &own});
    shared.wait();
    mine.wait();
    EXPECT_EQ(a[0], static_cast<float>(size()));
    EXPECT_EQ(b[0], static_cast<float>(2 * size()));
  }
  ronde::shutdown();
}

}  // namespace
}  // namespace ronde::test
