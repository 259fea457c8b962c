#include "base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace ronde {
namespace {

TEST(CpuShare, ARankGetsItsPartRoundedDownAndAtLeastOne) {
  EXPECT_EQ(threads_per_rank(8, std::nullopt, 2), 4);
  EXPECT_EQ(threads_per_rank(8, std::nullopt, 3), 2);
  EXPECT_EQ(threads_per_rank(2, std::nullopt, 5), 1);
  EXPECT_EQ(threads_per_rank(8, 3.0, 1), 3);
  EXPECT_EQ(threads_per_rank(8, 0.2, 1), 1);
  EXPECT_EQ(threads_per_rank(2, 64.0, 1), 2);
}

TEST(CpuShare, ReadsQuotasOfBothVersions) {
  EXPECT_EQ(parse_cpu_max("max 100000\n"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max(""), std::nullopt);
  EXPECT_EQ(parse_cpu_max("x y"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("100000 0"), std::nullopt);
  EXPECT_EQ(parse_cfs("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(parse_cfs("20000\n", "100000\n"), 0.2);
  EXPECT_EQ(parse_cfs("", ""), std::nullopt);
}

TEST(CpuShare, TheSmallestQuotaHolds) {
  std::string root = testing::TempDir() + "cgroup-XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  EXPECT_EQ(cgroup_quota(root), std::nullopt);
  write("/proc/self/cgroup", "4:cpu:/a\n0::/b/c\n");
  write("/proc/self/mountinfo", "1 1 0:1 / /v1 rw - cgroup cgroup rw,cpu\n2 1 0:2 / /v2 rw - cgroup2 cgroup2 rw\n");
  write("/v1/a/cpu.cfs_quota_us", "400000\n");
  write("/v1/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_quota(root), 4.0);
  write("/v2/b/c/cpu.max", "max 100000\n");
  write("/v2/b/cpu.max", "250000 100000\n");
  EXPECT_EQ(cgroup_quota(root), 2.5) << "a limit of a group above holds too";
  std::filesystem::remove_all(root);
}

TEST(CpuShare, TheAffinityMaskHolds) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(affinity_cores(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
    }
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(affinity_cores(), 1);
  ::sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace ronde
