#include "reduce/neutral.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "reduce/reduce.h"

namespace ronde::reduce {
namespace {

constexpr DType kFloats[] = {DType::float16, DType::bfloat16,  DType::float32,
                             DType::float64, DType::complex64, DType::complex128};

/// Both zeros, one, minus one, a subnormal number and infinity, of a real element or of each part of a complex one.
std::vector<std::byte> values_of(DType dtype) {
  const bool is_double = dtype == DType::float64 || dtype == DType::complex128;
  const bool is_half = dtype == DType::float16 || dtype == DType::bfloat16;
  const std::size_t bytes = is_half ? 2 : (is_double ? 8 : 4);
  const std::byte one_above = dtype == DType::float16 ? std::byte{0x3c} : std::byte{0x3f};
  std::vector<std::byte> values(8 * bytes);
  values[2 * bytes - 1] = std::byte{0x80};
  values[3 * bytes - 1] = one_above;
  values[4 * bytes - 1] = one_above | std::byte{0x80};
  values[4 * bytes] = std::byte{1};
  values[5 * bytes] = std::byte{1};
  values[6 * bytes - 1] = std::byte{0x80};
  return values;
}

TEST(Neutral, ChangesNoBitOfWhatItIsAddedTo) {
  for (const DType dtype : kFloats) {
    const std::vector<std::byte> values = values_of(dtype);
    const std::size_t count = values.size() / dtype_bytes(dtype);
    std::vector<std::byte> neutral(values.size());
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
      const Reduction reduction{.dtype = dtype, .op = op};
      if (!supports(reduction)) {
        continue;
      }
      fill_neutral(dtype, op, neutral);
      for (const bool is_first : {true, false}) {
        std::vector<std::byte> result(values.size());
        const std::array<const void*, 2> inputs = {is_first ? neutral.data() : values.data(),
                                                   is_first ? values.data() : neutral.data()};
        reduce(reduction, inputs, count, result.data());
        EXPECT_EQ(result, values) << dtype_name(dtype) << " " << reduce_op_name(op) << " " << is_first;
      }
    }
  }
}

TEST(Neutral, OfNoValuesASumIsAPositiveZero) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::complex128, DType::int8}) {
    std::vector<std::byte> none(4 * dtype_bytes(dtype), std::byte{7});
    fill_empty(dtype, ReduceOp::sum, none);
    EXPECT_EQ(none, std::vector<std::byte>(none.size())) << dtype_name(dtype);
    std::vector<std::byte> neutral(none.size());
    fill_empty(dtype, ReduceOp::product, none);
    fill_neutral(dtype, ReduceOp::product, neutral);
    EXPECT_EQ(none, neutral) << dtype_name(dtype);
  }
}

TEST(Neutral, OfIntegersIsZeroForSums) {
  for (const DType dtype :
       {DType::int8, DType::uint8, DType::int32, DType::int64, DType::uint32, DType::uint64, DType::boolean}) {
    std::vector<std::byte> neutral(4 * dtype_bytes(dtype), std::byte{7});
    fill_neutral(dtype, ReduceOp::sum, neutral);
    EXPECT_EQ(neutral, std::vector<std::byte>(neutral.size())) << dtype_name(dtype);
  }
}

TEST(Neutral, OfUnsignedIntegersAreTheirOwnLimits) {
  for (const DType dtype : {DType::uint8, DType::uint16, DType::uint32, DType::uint64}) {
    std::vector<std::byte> neutral(dtype_bytes(dtype));
    fill_neutral(dtype, ReduceOp::max, neutral);
    EXPECT_EQ(neutral, std::vector<std::byte>(neutral.size())) << dtype_name(dtype);
    fill_neutral(dtype, ReduceOp::min, neutral);
    EXPECT_EQ(neutral, std::vector<std::byte>(neutral.size(), std::byte{0xff})) << dtype_name(dtype);
  }
}

}  // namespace
}  // namespace ronde::reduce
