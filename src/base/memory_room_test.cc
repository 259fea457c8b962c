#include "base/memory_room.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace ronde {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

TEST(MemoryRoom, ReadsLinesOfBothKinds) {
  const char* const text = "MemTotal:       100 kB\nMemAvailable:    60 kB\nactive_file 5\nactive 7\n";
  EXPECT_EQ(number_of_line(text, "MemAvailable", 1), 60u * 1024);
  EXPECT_EQ(number_of_line(text, "active", 1), 7u);
  EXPECT_EQ(number_of_line(text, "active_file", 1), 5u);
  EXPECT_EQ(number_of_line(text, "file", 1), 1u);
  EXPECT_EQ(number_of_line("", "file", 3), 3u);
  EXPECT_EQ(number_of_line("x", "x", 3), 3u);
}

TEST(MemoryRoom, LeavesAThirtySecondAndCountsCachesAsFree) {
  EXPECT_EQ(room_below(3200, 0, 0), 3100u);
  EXPECT_EQ(room_below(3200, 2000, 0), 1100u);
  EXPECT_EQ(room_below(3200, 2000, 500), 1600u);
  EXPECT_EQ(room_below(3200, 2000, 5000), 3100u);
  EXPECT_EQ(room_below(3200, 3150, 0), 0u);
  EXPECT_EQ(room_below(3200, 9000, 0), 0u);
}

TEST(MemoryRoom, TheSmallestLimitHolds) {
  std::string root = testing::TempDir() + "memory-XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  EXPECT_EQ(memory_room(root), kUnlimitedMemory) << "nothing can be read";
  write("/proc/meminfo", "MemTotal: 3276800 kB\nMemAvailable: 2048000 kB\n");
  EXPECT_EQ(memory_room(root), (2000 - 100) * kMebibyte);
  write("/proc/self/cgroup", "4:memory:/a\n0::/b/c\n");
  write("/proc/self/mountinfo", "1 1 0:1 / /v1 rw - cgroup cgroup rw,memory\n2 1 0:2 / /v2 rw - cgroup2 cgroup2 rw\n");
  write("/v1/a/memory.limit_in_bytes", "9223372036854771712\n");
  write("/v1/a/memory.usage_in_bytes", "12345\n");
  EXPECT_EQ(memory_room(root), 1900 * kMebibyte) << "version 1 without a limit";
  write("/v1/a/memory.limit_in_bytes", std::to_string(320 * kMebibyte) + "\n");
  write("/v1/a/memory.usage_in_bytes", std::to_string(200 * kMebibyte) + "\n");
  write("/v1/a/memory.stat", "inactive_file 0\ntotal_inactive_file " + std::to_string(50 * kMebibyte) + "\n");
  EXPECT_EQ(memory_room(root), (320 - 150 - 10) * kMebibyte);
  write("/v2/b/c/memory.max", "max\n");
  write("/v2/b/memory.max", std::to_string(64 * kMebibyte) + "\n");
  write("/v2/b/memory.current", std::to_string(60 * kMebibyte) + "\n");
  write("/v2/b/memory.stat",
        "active_file " + std::to_string(1 * kMebibyte) + "\ninactive_file " + std::to_string(4 * kMebibyte) + "\n");
  EXPECT_EQ(memory_room(root), (64 - 55 - 2) * kMebibyte) << "a limit of a group above holds too";
  std::filesystem::remove_all(root);
}

TEST(MemoryRoom, OfThisMachineIsSomething) { EXPECT_GT(memory_room(), 0u); }

}  // namespace
}  // namespace ronde
