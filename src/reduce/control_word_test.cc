// Reductions by callers whose floating-point unit is set otherwise: the same bits, and their setting is theirs again.
#include "reduce/control_word.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "reduce/adasum.h"
#include "reduce/reduce.h"
#include "support/float_state.h"

namespace ronde::reduce {
namespace {

using Bytes = std::vector<std::byte>;
using test::kFloatStates;
using test::WithFloatState;

constexpr std::size_t kElements = 2051;

/// Any bits, and as many again with a small exponent: sums of them are subnormal numbers or nearly so.
Bytes values_of(DType dtype, unsigned seed) {
  std::mt19937_64 random(seed);
  const std::size_t bytes = dtype_bytes(dtype);
  Bytes values(kElements * bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::byte>(random());
    const bool is_top = i % bytes >= bytes - std::min<std::size_t>(bytes, 2);
    if (i / bytes % 2 == 1 && is_top) {
      values[i] &= std::byte{i % bytes == bytes - 1 ? std::uint8_t{0x80} : std::uint8_t{0x3f}};
    }
    if (i / bytes % 2 == 0 && i % bytes == bytes - 1) {
      values[i] &= std::byte{0xb7};  // neither infinite nor NaN: of two NaNs it is not fixed which comes out
    }
  }
  return values;
}

/// Of every path through reduce.h.
std::vector<Bytes> reduced(const Reduction& reduction, const std::vector<Bytes>& from) {
  const std::size_t bytes = kElements * dtype_bytes(reduction.dtype);
  std::vector<const void*> inputs;
  for (const Bytes& each : from) {
    inputs.push_back(each.data());
  }
  std::vector<Bytes> results;
  for (std::string_view level : levels()) {
    reduce_at(level, reduction, inputs, kElements, results.emplace_back(bytes).data());
  }
  const Reducer reducer(reduction, inputs.size());
  const DefaultArithmetic arithmetic;
  reducer(arithmetic, inputs.data(), kElements, results.emplace_back(bytes).data());
  std::vector<Bytes> several(3, Bytes(bytes));
  std::vector<void*> outputs{several[0].data(), several[1].data(), several[2].data()};
  reducer.to_all(arithmetic, inputs.data(), kElements, outputs);
  results.insert(results.end(), several.begin(), several.end());
  return results;
}

TEST(ControlWord, EveryReductionHasTheSameBitsWhateverTheCallersIs) {
  int others = 0;
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2, DType::float32,
                            DType::float64, DType::complex64, DType::complex128, DType::int32, DType::int64}) {
    const std::vector<Bytes> from{values_of(dtype, 1), values_of(dtype, 2), values_of(dtype, 3)};
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::product, ReduceOp::min}) {
      for (const double scale : {1.0, 0.3}) {
        const Reduction reduction{dtype, op, scale, scale == 1.0 ? 1.0 : 1.7};
        if (!supports(reduction)) {
          continue;
        }
        const std::vector<Bytes> expected = reduced(reduction, from);
        for (const auto& state : kFloatStates) {
          std::vector<Bytes> results;
          bool is_restored = false;
          {
            const WithFloatState with(state);
            results = reduced(reduction, from);
            is_restored = ((test::float_state() ^ state.word) & test::kFloatControl) == 0;
          }
          EXPECT_TRUE(is_restored) << state.name;
          for (std::size_t i = 0; i < results.size(); ++i) {
            ASSERT_EQ(results[i], expected[i]) << dtype_name(dtype) << " " << reduce_op_name(op) << " times " << scale
                                               << ", " << state.name << ", " << i;
          }
          ++others;
        }
      }
    }
  }
  EXPECT_GT(others, 300);
}

TEST(ControlWord, SoHasAdasum) {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    const auto combined = [&] {
      const Bytes from[2] = {values_of(dtype, 4), values_of(dtype, 5)};
      std::vector<double> a(kElements);
      std::vector<double> b(kElements);
      widen(dtype, from[0].data(), kElements, 0.3, a.data());
      widen(dtype, from[1].data(), kElements, 0.3, b.data());
      Products products;
      add_products(a.data(), b.data(), 7, products);
      Products rest;
      add_products(a.data() + 7, b.data() + 7, kElements - 7, rest);
      add(rest, products);
      combine(products, b.data(), kElements, a.data());
      Bytes result(kElements * dtype_bytes(dtype));
      narrow(dtype, a.data(), kElements, 1.7, result.data());
      return result;
    };
    const Bytes expected = combined();
    for (const auto& state : kFloatStates) {
      Bytes result;
      {
        const WithFloatState with(state);
        result = combined();
      }
      EXPECT_EQ(result, expected) << dtype_name(dtype) << ", " << state.name;
    }
  }
}

TEST(ControlWord, WhatTheCallerHasSeenHappenStaysSeen) {
#if defined(__x86_64__)
  const test::FloatState divided_by_zero{"divided by zero, rounds up", 0x5f84};
  const WithFloatState with(divided_by_zero);
  { const DefaultArithmetic arithmetic; }
  EXPECT_EQ(test::float_state(), divided_by_zero.word);
#endif
}

}  // namespace
}  // namespace ronde::reduce
