// Reducer: a reduction that is prepared once, beside reduce().
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "reduce/reduce.h"

namespace ronde::reduce {
namespace {

/// Of numbers whose sum depends on the order, and with scales that round.
TEST(Reducer, GoesOnFromAPartialResultWithTheBitsOfAllInOneGo) {
  constexpr std::size_t kCount = 301;
  constexpr std::size_t kRanks = 5;
  std::vector<std::vector<float>> values(kRanks, std::vector<float>(kCount));
  std::vector<const void*> inputs;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < kCount; ++i) {
      values[rank][i] = 1.0f / static_cast<float>(3 + (rank * 7 + i * 5) % 31);
    }
    inputs.push_back(values[rank].data());
  }
  const DefaultArithmetic arithmetic;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::product}) {
    for (const double scale : {1.0, 0.37}) {
      std::vector<float> expected(kCount);
      reduce({DType::float32, op, scale, 1 / scale}, inputs, kCount, expected.data());
      for (std::size_t cut = 1; cut < kRanks; ++cut) {
        std::vector<float> partial(kCount);
        std::vector<float> result(kCount);
        Reducer({DType::float32, op == ReduceOp::average ? ReduceOp::sum : op, scale, 1.0}, cut)(
            arithmetic, inputs.data(), kCount, partial.data());
        std::vector<const void*> rest = {partial.data()};
        rest.insert(rest.end(), inputs.begin() + static_cast<std::ptrdiff_t>(cut), inputs.end());
        Reducer({DType::float32, op, scale, 1 / scale}, rest.size(), op == ReduceOp::average ? kRanks : 0,
                First::partial)(arithmetic, rest.data(), kCount, result.data());
        EXPECT_EQ(result, expected) << "cut after " << cut << ", scaled by " << scale;
      }
    }
  }
}

TEST(Reducer, GivesTheBitsOfReduceToEveryOutputAlsoWhereAnOutputIsAnInput) {
  constexpr std::size_t kCount = 3001;  // some blocks and a rest
  for (const std::size_t ranks : {1u, 2u, 3u, 5u, 70u}) {
    for (const Reduction& reduction : {Reduction{}, Reduction{.dtype = DType::bfloat16, .op = ReduceOp::average},
                                       Reduction{.dtype = DType::int32, .op = ReduceOp::average, .postscale = 3}}) {
      const std::size_t bytes = kCount * dtype_bytes(reduction.dtype);
      std::vector<std::vector<std::byte>> values(ranks, std::vector<std::byte>(bytes));
      std::vector<const void*> inputs;
      std::vector<void*> outputs;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        for (std::size_t i = 0; i < bytes; ++i) {
          // Of a little-endian element the upper byte is 0x3f: a moderate number in every type.
          const bool is_upper = i % dtype_bytes(reduction.dtype) == dtype_bytes(reduction.dtype) - 1;
          values[rank][i] = is_upper ? std::byte{0x3f} : static_cast<std::byte>(i * 13 + rank * 7);
        }
        inputs.push_back(values[rank].data());
        outputs.push_back(values[rank].data());
      }
      std::vector<std::byte> expected(bytes);
      reduce(reduction, inputs, kCount, expected.data());
      std::vector<std::byte> one(bytes);
      const Reducer reducer(reduction, ranks);
      EXPECT_EQ(reducer.elements(bytes), kCount);
      const DefaultArithmetic arithmetic;
      reducer(arithmetic, inputs.data(), kCount, one.data());
      EXPECT_EQ(one, expected);
      reducer.to_all(arithmetic, inputs.data(), kCount, outputs);
      for (const auto& each : values) {
        EXPECT_EQ(each, expected) << ranks << " ranks, " << dtype_name(reduction.dtype);
      }
    }
  }
}

}  // namespace
}  // namespace ronde::reduce
