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

TEST(IntegerScaled, NoKernelForOtherTypes) {
  EXPECT_EQ(integer_scaled_kernel(DType::float32, ReduceOp::sum), nullptr);
  EXPECT_EQ(integer_scaled_kernel(DType::boolean, ReduceOp::sum), nullptr);
  EXPECT_EQ(integer_scaled_kernel(DType::int32, ReduceOp::adasum), nullptr);
}

}  // namespace
}  // namespace ronde::reduce
