#include "backend/mpi/mpi_reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace ronde::backend::mpi {
namespace {

using collectives::GatherList;
using testing::ElementsAre;

Handle handle(std::uintptr_t number) { return reinterpret_cast<Handle>(number); }

const Constants kConstants{.world = nullptr,
                           .byte = nullptr,
                           .float32 = handle(1),
                           .float64 = handle(2),
                           .int8 = handle(3),
                           .uint8 = handle(4),
                           .int16 = handle(5),
                           .uint16 = handle(6),
                           .int32 = handle(7),
                           .uint32 = handle(8),
                           .int64 = handle(9),
                           .uint64 = handle(10),
                           .sum = handle(11),
                           .product = handle(12),
                           .min = handle(13),
                           .max = handle(14),
                           .bit_and = handle(15),
                           .bit_or = handle(16),
                           .bit_xor = handle(17),
                           .null_request = nullptr,
                           .errors_return = nullptr,
                           .ignored_status = nullptr,
                           .thread_serialized = 2,
                           .thread_multiple = 3};

std::optional<MpiReduction> of(DType dtype, ReduceOp op, double prescale = 1, double postscale = 1, int ranks = 4) {
  return MpiReduction::of({dtype, op, prescale, postscale}, kConstants, ranks);
}

TEST(MpiReduction, IsOfTypesAndOperationsThatMpiRoundsAsRondeDoes) {
  EXPECT_EQ(of(DType::float32, ReduceOp::sum)->type(), kConstants.float32);
  EXPECT_EQ(of(DType::float64, ReduceOp::average)->op(), kConstants.sum);
  EXPECT_EQ(of(DType::int32, ReduceOp::max)->op(), kConstants.max);
  EXPECT_EQ(of(DType::int64, ReduceOp::product)->type(), kConstants.int64);
  EXPECT_EQ(of(DType::uint8, ReduceOp::sum)->type(), kConstants.uint8);
  EXPECT_EQ(of(DType::int16, ReduceOp::min)->type(), kConstants.int16);
  EXPECT_EQ(of(DType::uint64, ReduceOp::bit_xor)->op(), kConstants.bit_xor);
  EXPECT_EQ(of(DType::boolean, ReduceOp::product)->op(), kConstants.bit_and);
  EXPECT_EQ(of(DType::boolean, ReduceOp::sum)->op(), kConstants.bit_or);
  EXPECT_EQ(of(DType::boolean, ReduceOp::bit_xor)->type(), kConstants.uint8);
  EXPECT_EQ(of(DType::complex64, ReduceOp::average)->type(), kConstants.float32);
  EXPECT_EQ(of(DType::complex128, ReduceOp::sum)->type(), kConstants.float64);
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2}) {
    EXPECT_EQ(of(dtype, ReduceOp::average, 0.5, 2)->type(), kConstants.float32);
  }
}

TEST(MpiReduction, WhatMpiWouldDoOtherwiseIsLeft) {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16}) {
    EXPECT_FALSE(of(dtype, ReduceOp::min)) << "NaNs";
    EXPECT_FALSE(of(dtype, ReduceOp::max)) << "NaNs";
  }
  EXPECT_FALSE(of(DType::float32, ReduceOp::bit_and));
  EXPECT_FALSE(of(DType::float32, ReduceOp::adasum));
  EXPECT_FALSE(of(DType::int32, ReduceOp::average));
  EXPECT_FALSE(of(DType::int64, ReduceOp::sum, 2.0));
  EXPECT_FALSE(of(DType::int64, ReduceOp::sum, 1.0, 0.5));
  EXPECT_FALSE(of(DType::boolean, ReduceOp::average));
  EXPECT_FALSE(of(DType::complex64, ReduceOp::product));
}

/// What comes out of one rank's values if MPI adds up `ranks` equal ones.
std::vector<float> through(const MpiReduction& reduction, std::vector<float> values, float ranks) {
  std::vector<float> results(values.size());
  GatherList list;
  list.append(values.data(), results.data(), 4 * sizeof(float));
  list.append(values.data() + 4, results.data() + 4, (values.size() - 4) * sizeof(float));
  std::vector<float> staged(values.size());
  auto* const memory = reinterpret_cast<std::byte*>(staged.data());
  reduction.copy_in(list, 0, list.bytes(), memory);
  for (float& each : staged) {
    each *= ranks;
  }
  reduction.copy_out(list, 0, 2 * sizeof(float), memory);  // in parts
  reduction.copy_out(list, 2 * sizeof(float), list.bytes(), memory + 2 * sizeof(float));
  return results;
}

TEST(MpiReduction, ScalesBeforeAndBehindAndDividesAverages) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  EXPECT_THAT(through(*of(DType::float32, ReduceOp::sum), values, 4), ElementsAre(4, 8, 12, 16, 20, 24));
  EXPECT_THAT(through(*of(DType::float32, ReduceOp::average), values, 4), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(through(*of(DType::float32, ReduceOp::average, 2, 0.5), values, 4), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(through(*of(DType::float32, ReduceOp::sum, 0.5, 3), values, 4), ElementsAre(6, 12, 18, 24, 30, 36));
  EXPECT_THAT(through(*of(DType::float32, ReduceOp::average, 1, 1, 1), values, 1), ElementsAre(1, 2, 3, 4, 5, 6));
}

/// Two values in tensors of a type, as MPI gets them, and what comes back of `sums`.
void expect_widened(DType dtype, std::vector<std::uint16_t> codes, std::vector<float> values, std::vector<float> sums,
                    std::vector<std::uint16_t> averages) {
  const MpiReduction reduction = *of(dtype, ReduceOp::average, 2, 0.5, 2);
  std::vector<std::uint16_t> results(codes.size());
  GatherList list;
  list.append(codes.data(), results.data(), sizeof(std::uint16_t));
  list.append(codes.data() + 1, results.data() + 1, sizeof(std::uint16_t));
  EXPECT_EQ(reduction.element_bytes(), 2u);
  EXPECT_EQ(reduction.staged(list.bytes()), 8u);
  std::vector<float> staged(2);
  reduction.copy_in(list, 0, list.bytes(), reinterpret_cast<std::byte*>(staged.data()));
  EXPECT_EQ(staged, values);
  const auto* const memory = reinterpret_cast<const std::byte*>(sums.data());
  reduction.copy_out(list, 0, 2, memory);  // in parts
  reduction.copy_out(list, 2, 4, memory + 4);
  EXPECT_EQ(results, averages);
}

TEST(MpiReduction, SmallFloatsAreAddedAsFloat32AndRoundedOnce) {
  // 1.5 and 60000, whose sum over two ranks float16 does not hold.
  expect_widened(DType::float16, {0x3e00, 0x7b53}, {3, 120000}, {6, 240000}, {0x3e00, 0x7b53});
  expect_widened(DType::bfloat16, {0x3fc0, 0x4040}, {3, 6}, {6, 12.0625}, {0x3fc0, 0x4041});
}

TEST(MpiReduction, LongSmallFloatsGoBlockByBlock) {
  const MpiReduction reduction = *of(DType::float8_e5m2, ReduceOp::average, 1, 1, 2);
  std::vector<std::uint8_t> codes(5000, 0x40);  // 2
  std::vector<std::uint8_t> results(codes.size());
  GatherList list;
  list.append(codes.data(), results.data(), codes.size());
  std::vector<float> staged(codes.size());
  reduction.copy_in(list, 0, list.bytes(), reinterpret_cast<std::byte*>(staged.data()));
  EXPECT_EQ(staged, std::vector<float>(codes.size(), 2));
  staged.assign(codes.size(), 6);
  reduction.copy_out(list, 0, list.bytes(), reinterpret_cast<const std::byte*>(staged.data()));
  EXPECT_EQ(results, std::vector<std::uint8_t>(codes.size(), 0x42)) << "3";
}

}  // namespace
}  // namespace ronde::backend::mpi
