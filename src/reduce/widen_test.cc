#include "reduce/widen.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "reduce/reduce.h"

namespace ronde::reduce {
namespace {

constexpr DType kSmall[] = {DType::float16, DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2};

TEST(Widen, IsOfFloatsOfFewBits) {
  for (const DType dtype : kSmall) {
    EXPECT_TRUE(is_small_float(dtype));
  }
  for (const DType dtype : {DType::float32, DType::float64, DType::int16, DType::uint8, DType::complex64}) {
    EXPECT_FALSE(is_small_float(dtype));
  }
}

/// As reduce() has them: the sum of two equal values is twice the value, rounded once.
TEST(Widen, EveryCodeIsWhatReductionsTakeItFor) {
  const DefaultArithmetic arithmetic;
  for (const DType dtype : kSmall) {
    const std::size_t bytes = dtype_bytes(dtype);
    const std::size_t count = std::size_t{1} << (8 * bytes);
    std::vector<std::uint8_t> codes(count * bytes);
    for (std::size_t code = 0; code < count; ++code) {
      codes[code * bytes] = static_cast<std::uint8_t>(code);
      if (bytes == 2) {
        codes[code * bytes + 1] = static_cast<std::uint8_t>(code >> 8);
      }
    }
    std::vector<float> wide(count);
    widen(arithmetic, dtype, codes.data(), count, wide.data());
    std::vector<float> doubled(count);
    for (std::size_t i = 0; i < count; ++i) {
      doubled[i] = wide[i] + wide[i];
    }
    std::vector<std::uint8_t> mine(codes.size());
    std::vector<std::uint8_t> theirs(codes.size());
    narrow(arithmetic, dtype, doubled.data(), count, mine.data());
    const void* const inputs[] = {codes.data(), codes.data()};
    reduce({dtype, ReduceOp::sum}, inputs, count, theirs.data());
    EXPECT_EQ(mine, theirs) << dtype_name(dtype);
    // And back, but for NaNs, which become quiet.
    narrow(arithmetic, dtype, wide.data(), count, mine.data());
    for (std::size_t i = 0; i < count; ++i) {
      if (!std::isnan(wide[i])) {
        ASSERT_EQ(mine[i * bytes], codes[i * bytes]) << dtype_name(dtype) << " " << i;
        ASSERT_EQ(mine[i * bytes + bytes - 1], codes[i * bytes + bytes - 1]) << dtype_name(dtype) << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ronde::reduce
