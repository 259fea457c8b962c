#include "launches.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace ronde::jax {

namespace {

constexpr std::uint64_t kProgram = 7;

TEST(Launches, CountsWhatIsLeftOut) {
  Launches launches;
  EXPECT_EQ(launches.left_out(kProgram, -5, 1), 0);  // the first: nothing is known of those before it
  EXPECT_EQ(launches.left_out(kProgram, -4, 1), 0);
  EXPECT_EQ(launches.left_out(kProgram, -1, 1), 2);
  EXPECT_EQ(launches.left_out(kProgram, 0, 1), 0);
  EXPECT_EQ(launches.left_out(kProgram + 1, 3, 1), 0);  // another program's
  EXPECT_EQ(launches.left_out(kProgram, 1, 1), 0);
}

TEST(Launches, KeepsExecutablesOfAProgramApart) {
  Launches launches;
  launches.left_out(kProgram, 100, 1);
  launches.left_out(kProgram, 50'000, 1);
  EXPECT_EQ(launches.left_out(kProgram, 101, 1), 0);
  EXPECT_EQ(launches.left_out(kProgram, 50'003, 1), 2);
  EXPECT_EQ(launches.left_out(kProgram, 104, 1), 2);
  // Two of the same text, which JAX 0.6 numbers alike.
  launches.left_out(kProgram, 9'000, 1);
  EXPECT_EQ(launches.left_out(kProgram, 9'000, 1), 0);
  EXPECT_EQ(launches.left_out(kProgram, 9'001, 1), 0);
  EXPECT_EQ(launches.left_out(kProgram, 9'001, 1), 0);
}

TEST(Launches, KnowsNothingOverAnInit) {
  Launches launches;
  launches.left_out(kProgram, 10, 1);
  EXPECT_EQ(launches.left_out(kProgram, 14, 2), 0);
  EXPECT_EQ(launches.left_out(kProgram, 16, 2), 1);
}

TEST(Launches, GoesAround) {
  Launches launches;
  launches.left_out(kProgram, std::numeric_limits<std::int32_t>::max(), 1);
  EXPECT_EQ(launches.left_out(kProgram, std::int64_t{std::numeric_limits<std::int32_t>::min()} + 1, 1), 1);
}

TEST(Launches, ForgetsTheOldestExecutables) {
  Launches launches;
  for (std::int64_t executable = 0; executable < 1000; ++executable) {
    EXPECT_EQ(launches.left_out(kProgram, executable * 100'000, 1), 0);
  }
  EXPECT_EQ(launches.left_out(kProgram, 999 * 100'000 + 2, 1), 1);
  EXPECT_EQ(launches.left_out(kProgram, 2, 1), 0);
}

}  // namespace

}  // namespace ronde::jax
