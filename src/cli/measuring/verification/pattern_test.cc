#include "cli/measuring/verification/pattern.h"

#include <gtest/gtest.h>

#include <vector>

namespace ronde::cli {
namespace {

TEST(Pattern, EncodesWholeNumbers) {
  EXPECT_EQ(encode_whole(RONDE_FLOAT32, 2), 0x40000000u);
  EXPECT_EQ(encode_whole(RONDE_FLOAT64, 1), 0x3ff0000000000000u);
  EXPECT_EQ(encode_whole(RONDE_BFLOAT16, 1), 0x3f80u);
  EXPECT_EQ(encode_whole(RONDE_FLOAT16, 0), 0u);
  EXPECT_EQ(encode_whole(RONDE_FLOAT16, 1), 0x3c00u);
  EXPECT_EQ(encode_whole(RONDE_FLOAT16, 2047), 0x67ffu);
  EXPECT_EQ(encode_whole(RONDE_INT8, 5), 5u);
}

TEST(Pattern, RanksDifferAndSumsAddUp) {
  constexpr std::size_t kCount = 3000;
  for (std::uint64_t call : {0u, 1u, 2u, 3u}) {
    std::vector<std::vector<float>> inputs(3, std::vector<float>(kCount));
    std::vector<float> sum(kCount);
    for (int rank = 0; rank < 3; ++rank) {
      input_pattern(RONDE_FLOAT32, rank).fill(inputs[rank].data(), kCount * sizeof(float), call);
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      sum[i] = inputs[0][i] + inputs[1][i] + inputs[2][i];
    }
    EXPECT_NE(inputs[0], inputs[1]);
    EXPECT_NE(inputs[1], inputs[2]);
    EXPECT_EQ(sum_pattern(RONDE_FLOAT32, 3).first_difference(sum.data(), kCount * sizeof(float), call), std::nullopt);
  }
}

TEST(Pattern, TellsTheFirstWrongElement) {
  const Pattern pattern = input_pattern(RONDE_BFLOAT16, 1);
  std::vector<std::uint16_t> values(5000);
  pattern.fill(values.data(), values.size() * 2, 7);
  values[4000] ^= 0x0100;
  values[4500] ^= 1;
  EXPECT_EQ(pattern.first_difference(values.data(), values.size() * 2, 7), 4000u);
  EXPECT_EQ(pattern.first_difference(values.data(), 4000UL * 2, 7), std::nullopt);
  EXPECT_EQ(pattern.first_difference(values.data(), 0, 7), std::nullopt);
}

TEST(Pattern, BeginsAnywhere) {
  const Pattern pattern = input_pattern(RONDE_FLOAT32, 2);
  std::vector<float> values(5000);
  pattern.fill(values.data(), values.size() * sizeof(float), 4);
  for (const std::size_t skipped : {1u, 1020u, 1021u, 1022u, 3000u}) {
    EXPECT_EQ(pattern.first_difference(values.data() + skipped, 2000 * sizeof(float), 4, skipped), std::nullopt);
    EXPECT_TRUE(pattern.first_difference(values.data() + skipped, 2000 * sizeof(float), 4, skipped + 1)) << skipped;
  }
}

TEST(Pattern, CallsDifferAndShiftsByPowersOfTwoShow) {
  const Pattern pattern = input_pattern(RONDE_FLOAT32, 0);
  std::vector<float> values(70000);
  pattern.fill(values.data(), values.size() * sizeof(float), 0);
  EXPECT_TRUE(pattern.first_difference(values.data(), values.size() * sizeof(float), 1));
  for (std::size_t shift = 1; shift <= 65536; shift *= 2) {
    EXPECT_TRUE(pattern.first_difference(values.data() + shift, 3000 * sizeof(float), 0)) << shift;
  }
}

}  // namespace
}  // namespace ronde::cli
