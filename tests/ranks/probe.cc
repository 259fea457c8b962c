// The table that is probed in the background: whose row counts at init, and what a job leaves behind.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ronde/ronde.hpp>

#include "support/rank_test.h"

namespace ronde::test {
namespace {

std::size_t threads() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Threads of this process that are called so.
int threads_named(const std::string& wanted) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == wanted ? 1 : 0;
  }
  return count;
}

/// The row of a job that does little else.
std::string row_of_a_job() {
  ronde::init();
  ronde::barrier();  // rank 0 says its row before it takes part in anything
  const char* text = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(ronde_get_table(nullptr, &text, &bytes), RONDE_OK) << ronde_last_error();
  const std::string row(text, bytes);
  ronde::shutdown();
  return row;
}

std::string first_line(const char* path, const std::string& after = "") {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line) && line.rfind(after, 0) != 0) {
  }
  return line.substr(after.empty() ? 0 : line.find(": ") + 2);
}

/// What the file of a table begins with.
std::string identity(const std::string& boot) {
  std::string processor = first_line("/proc/cpuinfo", "model name");
  processor = processor.empty() ? first_line("/proc/cpuinfo", "CPU part") : processor;
  return "# ronde " + std::string(ronde_version()) + ", boot " + boot + ", processor " + processor;
}

class Probe : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("RONDE_PROBE", "0", 1);
    built_in_ = row_of_a_job();
    ::unsetenv("RONDE_PROBE");
    // Only where there is a core for each rank, which rank 0 knows best.
    ronde::init();
    std::vector<float> probes(1, static_cast<float>(threads_named("ronde-probe")));
    ronde::allreduce(probes, {.name = "probes", .op = Op::sum});
    ronde::shutdown();
    probes_ = probes[0] == 1;
  }
  void SetUp() override { meet(); }
  void TearDown() override {
    meet();
    ::unsetenv("RONDE_PROBE");
    ::unsetenv("RONDE_TABLE");
    std::filesystem::remove(path_);
    meet();
  }
  /// As an earlier job would have left it.
  void leave_file(const std::string& text) const {
    if (test::rank() == 0) {
      std::ofstream(path_) << text;
      std::filesystem::permissions(path_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    }
    meet();
  }
  void leave_table(const std::string& boot = first_line("/proc/sys/kernel/random/boot_id")) const {
    leave_file(identity(boot) + ", hand-over 100 ns\nranks any: " + row_ + "\n");
  }

  static inline std::string built_in_;
  static inline bool probes_ = false;
  const std::string path_ = folder() + "/ronde-table-" + std::to_string(::geteuid());
  const std::string row_ = "inline 56, one_shot 4000, staged 8192, chunk 4096, stream 0";
};

TEST_F(Probe, InitAndShutdownAtOnceMeasureNothing) {
  ronde::init();
  ronde::shutdown();
  const std::size_t before = threads();
  const double start = now_seconds();
  double longest = 0;
  for (int round = 0; round < 20; ++round) {
    const double begin = now_seconds();
    ronde::init();
    EXPECT_EQ(threads_named("ronde-probe"), test::rank() == 0 && probes_ ? 1 : 0);
    ronde::shutdown();
    EXPECT_EQ(threads(), before);
    longest = std::max(longest, now_seconds() - begin);
  }
  std::printf("%d ranks: %.1f ms a round of init and shutdown\n", size(), (now_seconds() - start) / 20 * 1e3);
  EXPECT_TRUE(longest > 0.25 || !std::filesystem::exists(path_));
}

TEST_F(Probe, ATableOfAnEarlierJobIsInForceFromTheBeginning) {
  leave_table();
  const std::string earlier = "ranks " + std::to_string(size()) + ": " + row_ + "\n";
  EXPECT_EQ(row_of_a_job(), probes_ ? earlier : built_in_);
}

TEST_F(Probe, RanksReduceRightUnderIt) {
  leave_table();
  ronde::init();
  for (int i = 0; i < 20; ++i) {
    for (const std::size_t elements : {1u, 500u, 1500u, 2100u, 100001u}) {
      std::vector<float> values(elements, static_cast<float>(i + test::rank()));
      ronde::allreduce(values, {.name = std::to_string(elements), .op = Op::sum});
      ASSERT_EQ(values.back(), static_cast<float>(size() * i + size() * (size() - 1) / 2));
    }
  }
  ronde::shutdown();
}

TEST_F(Probe, WhatTheUserSaysWins) {
  leave_table();
  ::setenv("RONDE_PROBE", "0", 1);
  EXPECT_EQ(row_of_a_job(), built_in_);
  ronde::init();
  EXPECT_EQ(threads_named("ronde-probe"), 0);
  ronde::shutdown();
  ::unsetenv("RONDE_PROBE");
  ::setenv("RONDE_TABLE", "ranks any: chunk 65536", 1);
  EXPECT_NE(row_of_a_job().find("chunk 65536"), std::string::npos);
  ronde::init();
  EXPECT_EQ(threads_named("ronde-probe"), 0);
  ronde::shutdown();
  ::unsetenv("RONDE_TABLE");
  ::setenv("RONDE_PROBE", "maybe", 1);
  EXPECT_THROW(ronde::init(), Error);
}

TEST_F(Probe, ATableOfAnotherBootOrABrokenOneCountsAsNothing) {
  leave_table("another");
  EXPECT_EQ(row_of_a_job(), built_in_);
  meet();
  leave_file("ranks two: chunk many\n");
  EXPECT_EQ(row_of_a_job(), built_in_);
}

// A job long enough to be measured. Whether it is depends on what else runs on the cores; the sums do not.
TEST_F(Probe, ALongerJobIsProbedWhileItWorks) {
  ronde::init();
  const double until = now_seconds() + 1;
  bool goes_on = true;
  for (int i = 0; goes_on; ++i) {
    std::vector<float> values(3000, static_cast<float>(i));
    values[0] = now_seconds() < until ? 1 : 0;  // so that all stop at once
    ronde::allreduce(values, {.name = "x", .op = Op::sum});
    goes_on = values[0] == static_cast<float>(size());
    ASSERT_EQ(values[2999], static_cast<float>(size() * i));
  }
  ronde::shutdown();
  EXPECT_EQ(threads_named("ronde-probe"), 0);
  meet();
  const bool is_kept = std::filesystem::exists(path_);
  EXPECT_TRUE(!is_kept || probes_) << "where ranks share cores nothing is measured";
  if (is_kept) {
    const std::string head = first_line(path_.c_str());
    EXPECT_EQ(head.rfind(identity(first_line("/proc/sys/kernel/random/boot_id")) + ", hand-over ", 0), 0u) << head;
    std::printf("rank %d: %s\n", test::rank(), head.c_str());
  }
}

}  // namespace
}  // namespace ronde::test
