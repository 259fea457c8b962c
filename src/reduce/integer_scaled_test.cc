#include "reduce/integer_scaled.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace ronde::reduce {
namespace {

TEST(TruncateSaturating, TowardsZero) {
  EXPECT_EQ(truncate_saturating<std::int32_t>(2.9), 2);
  EXPECT_EQ(truncate_saturating<std::int32_t>(-2.9), -2);
  EXPECT_EQ(truncate_saturating<std::uint8_t>(-0.9), 0);
  EXPECT_EQ(truncate_saturating<std::int8_t>(127.9), 127);
  EXPECT_EQ(truncate_saturating<std::int8_t>(-128.9), -128);
}

TEST(TruncateSaturating, LimitsAndNan) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(truncate_saturating<std::uint8_t>(256.0), 255);
  EXPECT_EQ(truncate_saturating<std::uint8_t>(-1.0), 0);
  EXPECT_EQ(truncate_saturating<std::int16_t>(1e9), 32767);
  EXPECT_EQ(truncate_saturating<std::int16_t>(-1e9), -32768);
  EXPECT_EQ(truncate_saturating<std::int32_t>(2147483648.0), 2147483647);
  EXPECT_EQ(truncate_saturating<std::int32_t>(2147483647.0), 2147483647);
  EXPECT_EQ(truncate_saturating<std::int64_t>(0x1p63), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(truncate_saturating<std::int64_t>(0x1.fffffffffffffp62), 0x7ffffffffffffc00);
  EXPECT_EQ(truncate_saturating<std::int64_t>(-0x1p63), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(truncate_saturating<std::int64_t>(kInfinity), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(truncate_saturating<std::int64_t>(-kInfinity), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(truncate_saturating<std::int64_t>(std::nan("")), 0);
  EXPECT_EQ(truncate_saturating<std::uint8_t>(std::nan("")), 0);
  EXPECT_EQ(truncate_saturating<std::uint32_t>(4294967295.0), 4294967295u);
  EXPECT_EQ(truncate_saturating<std::uint32_t>(4294967296.0), 4294967295u);
  EXPECT_EQ(truncate_saturating<std::uint64_t>(0x1p63), std::uint64_t{1} << 63);
  EXPECT_EQ(truncate_saturating<std::uint64_t>(0x1p64), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(truncate_saturating<std::uint64_t>(-1.0), 0u);
}

template <typename T>
T reduce_two(DType dtype, ReduceOp op, T a, T b, double prescale, double postscale) {
  const void* inputs[] = {&a, &b};
  T result = 0;
  integer_scaled_kernel(dtype, op)(
      {.inputs = inputs, .ranks = 2, .count = 1, .output = &result, .prescale = prescale, .postscale = postscale});
  return result;
}

TEST(IntegerScaled, AverageSumsWideAndTruncatesTowardsZero) {
  EXPECT_EQ(reduce_two<std::uint8_t>(DType::uint8, ReduceOp::average, 255, 254, 1, 1), 254);
  EXPECT_EQ(reduce_two<std::int8_t>(DType::int8, ReduceOp::average, -128, -127, 1, 1), -127);
  EXPECT_EQ(reduce_two<std::int8_t>(DType::int8, ReduceOp::average, -1, 0, 1, 1), 0);
  constexpr std::int64_t kBig = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(reduce_two<std::int64_t>(DType::int64, ReduceOp::average, kBig, kBig, 1, 1), kBig) << "not through double";
  EXPECT_EQ(reduce_two<std::uint32_t>(DType::uint32, ReduceOp::average, 4294967295u, 4294967293u, 1, 1), 4294967294u);
  constexpr std::uint64_t kAboveSigned = std::uint64_t{1} << 63;
  EXPECT_EQ(reduce_two<std::uint64_t>(DType::uint64, ReduceOp::average, kAboveSigned, 6, 1, 1), kAboveSigned / 2 + 3);
}

TEST(IntegerScaled, EachRankIsTruncatedBeforeTheSum) {
  EXPECT_EQ(reduce_two<std::int32_t>(DType::int32, ReduceOp::sum, 3, 3, 0.5, 1), 2);
  EXPECT_EQ(reduce_two<std::int32_t>(DType::int32, ReduceOp::sum, -3, -3, 0.5, 1), -2);
  EXPECT_EQ(reduce_two<std::int32_t>(DType::int32, ReduceOp::sum, 3, 4, 1, 0.5), 3);
}

TEST(IntegerScaled, SumWrapsInItsTypeBeforeThePostscale) {
  EXPECT_EQ(reduce_two<std::uint8_t>(DType::uint8, ReduceOp::sum, 200, 100, 1, 2), 88);
  EXPECT_EQ(reduce_two<std::uint8_t>(DType::uint8, ReduceOp::product, 200, 100, 1, 1), 200 * 100 % 256);
}

TEST(IntegerScaled, ComparesUnsignedOnesAsSuch) {
  constexpr std::uint64_t kAboveSigned = (std::uint64_t{1} << 63) + 4096;
  EXPECT_EQ(reduce_two<std::uint64_t>(DType::uint64, ReduceOp::max, kAboveSigned, 6, 1, 0.5), kAboveSigned / 2);
  EXPECT_EQ(reduce_two<std::uint64_t>(DType::uint64, ReduceOp::min, kAboveSigned, 6, 1, 0.5), 3u);
  EXPECT_EQ(reduce_two<std::uint32_t>(DType::uint32, ReduceOp::max, 4294967294u, 6, 1, 0.5), 2147483647u);
}

TEST(IntegerScaled, NoKernelForOtherTypes) {
  EXPECT_EQ(integer_scaled_kernel(DType::float32, ReduceOp::sum), nullptr);
  EXPECT_EQ(integer_scaled_kernel(DType::boolean, ReduceOp::sum), nullptr);
  EXPECT_EQ(integer_scaled_kernel(DType::int32, ReduceOp::adasum), nullptr);
}

}  // namespace
}  // namespace ronde::reduce
