// Names that are used some times and then never again (metrics of an epoch): what they cost goes with them.
// RONDE_TEST_SOAK=1 uses a hundred thousand.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <ronde/ronde.hpp>

#include "support/effort.h"
#include "support/rank_test.h"

namespace ronde::test {
namespace {

/// Private memory of this process, in KiB.
std::size_t private_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) {
      return std::stoul(line.substr(8));
    }
  }
  ADD_FAILURE();
  return 0;
}

ronde_counters counters() {
  ronde_counters now{};
  now.struct_size = sizeof now;
  EXPECT_EQ(ronde_get_counters(nullptr, &now), RONDE_OK);
  return now;
}

TEST(ManyNames, ThoseNotUsedAnyMoreAreRetired) {
  const Session session;
  const char* const soak = std::getenv("RONDE_TEST_SOAK");
  const int count = soak != nullptr && std::string(soak) == "1" ? 100000 : 6000;
  const auto add_up = [](const std::string& name) {
    std::vector<float> values(3, static_cast<float>(test::rank() + 1));
    ronde::allreduce(values, {.name = name, .op = Op::sum});
    return values[0] == 3.0f && values[2] == 3.0f;
  };
  std::size_t after_some = 0;
  for (int i = 0; i < count; ++i) {
    const std::string name = "metric " + std::to_string(i);
    ASSERT_TRUE(add_up(name) && add_up(name)) << i;
    ASSERT_TRUE(add_up("always")) << i;
    if (i == 5000) {
      after_some = private_kib();
    }
  }
  EXPECT_GT(counters().breaks, 0u) << "an epoch must end for buckets to go";
  EXPECT_LE(counters().breaks, static_cast<std::uint64_t>(count) / 256) << "but seldom";
  if (kFullEffort) {  // a sanitizer keeps what is freed
    EXPECT_LE(private_kib(), after_some + 4096 + static_cast<std::size_t>(count)) << "1 KiB a name at most";
  }
  // What is in use is replayed as before, and a name that comes back is new.
  const ronde_counters before = counters();
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(add_up("always"));
    ASSERT_TRUE(add_up("metric 0"));
  }
  EXPECT_GE(counters().replayed - before.replayed, 300u);
}

}  // namespace
}  // namespace ronde::test
