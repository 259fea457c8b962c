#include "backend/staged/staged_reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backend/staged/testing/stub_library.h"

namespace ronde::backend {
namespace {

using collectives::GatherList;
using testing::ElementsAre;

std::optional<StagedReduction> of(DType dtype, ReduceOp op, double prescale = 1, double postscale = 1, int ranks = 4) {
  return StagedReduction::of({dtype, op, prescale, postscale}, StubLibrary(ranks), OpKind::reduce);
}

TEST(StagedReduction, IsOfTypesAndOperationsThatLibrariesRoundAsRondeDoes) {
  EXPECT_EQ(of(DType::float32, ReduceOp::sum)->type(), DType::float32);
  EXPECT_EQ(of(DType::float64, ReduceOp::average)->op(), ReduceOp::sum);
  EXPECT_EQ(of(DType::int32, ReduceOp::max)->op(), ReduceOp::max);
  EXPECT_EQ(of(DType::int64, ReduceOp::product)->type(), DType::int64);
  EXPECT_EQ(of(DType::uint8, ReduceOp::bit_or)->type(), DType::uint8);
  EXPECT_EQ(of(DType::uint32, ReduceOp::sum)->type(), DType::uint32);
  EXPECT_EQ(of(DType::int16, ReduceOp::min)->type(), DType::int16);
  EXPECT_EQ(of(DType::uint64, ReduceOp::bit_xor)->op(), ReduceOp::bit_xor);
  EXPECT_EQ(of(DType::boolean, ReduceOp::sum)->op(), ReduceOp::bit_or);
  EXPECT_EQ(of(DType::boolean, ReduceOp::max)->type(), DType::uint8);
  EXPECT_EQ(of(DType::complex64, ReduceOp::average)->type(), DType::float32);
  EXPECT_EQ(of(DType::complex128, ReduceOp::sum)->type(), DType::float64);
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2}) {
    EXPECT_EQ(of(dtype, ReduceOp::average, 0.5, 2)->type(), DType::float32);
  }
}

TEST(StagedReduction, WhatALibraryWouldDoOtherwiseIsLeft) {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16}) {
    EXPECT_FALSE(of(dtype, ReduceOp::min)) << "NaNs";
    EXPECT_FALSE(of(dtype, ReduceOp::max)) << "NaNs";
  }
  EXPECT_FALSE(of(DType::float32, ReduceOp::bit_and));
  EXPECT_FALSE(of(DType::float32, ReduceOp::adasum));
  for (const DType dtype : {DType::int8, DType::uint8, DType::int16, DType::uint16}) {
    EXPECT_FALSE(of(dtype, ReduceOp::sum)) << "where it overflows";
    EXPECT_FALSE(of(dtype, ReduceOp::product)) << "where it overflows";
  }
  for (const DType dtype : {DType::uint8, DType::uint16, DType::uint32, DType::uint64}) {
    EXPECT_FALSE(of(dtype, ReduceOp::min)) << "taken for signed ones";
    EXPECT_FALSE(of(dtype, ReduceOp::max)) << "taken for signed ones";
  }
  EXPECT_FALSE(of(DType::int32, ReduceOp::average));
  EXPECT_FALSE(of(DType::int64, ReduceOp::sum, 2.0));
  EXPECT_FALSE(of(DType::int64, ReduceOp::sum, 1.0, 0.5));
  EXPECT_FALSE(of(DType::boolean, ReduceOp::average));
  EXPECT_FALSE(of(DType::boolean, ReduceOp::product)) << "of the bytes 2 and 4";
  EXPECT_FALSE(of(DType::boolean, ReduceOp::bit_xor)) << "of the bytes 2 and 4";
  EXPECT_FALSE(of(DType::complex64, ReduceOp::product));
}

/// What comes out of one rank's values if a library adds up `ranks` equal ones.
std::vector<float> through(const StagedReduction& reduction, std::vector<float> values, float ranks) {
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
  reduction.copy_out(list, 0, 2 * sizeof(float), memory, 0);  // in parts
  reduction.copy_out(list, 2 * sizeof(float), list.bytes(), memory + 2 * sizeof(float), 0);
  return results;
}

TEST(StagedReduction, ScalesBeforeAndBehindAndDividesAverages) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  EXPECT_THAT(through(*of(DType::float32, ReduceOp::sum), values, 4), ElementsAre(4, 8, 12, 16, 20, 24));
  EXPECT_THAT(through(*of(DType::float32, ReduceOp::average), values, 4), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(through(*of(DType::float32, ReduceOp::average, 2, 0.5), values, 4), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(through(*of(DType::float32, ReduceOp::sum, 0.5, 3), values, 4), ElementsAre(6, 12, 18, 24, 30, 36));
  EXPECT_THAT(through(*of(DType::float32, ReduceOp::average, 1, 1, 1), values, 1), ElementsAre(1, 2, 3, 4, 5, 6));
}

/// Two values in tensors of a type, as the library gets them, and what comes back of `sums`.
void expect_widened(DType dtype, std::vector<std::uint16_t> codes, std::vector<float> values, std::vector<float> sums,
                    std::vector<std::uint16_t> averages) {
  const StagedReduction reduction = *of(dtype, ReduceOp::average, 2, 0.5, 2);
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
  reduction.copy_out(list, 0, 2, memory, 0);  // in parts
  reduction.copy_out(list, 2, 4, memory + 4, 0);
  EXPECT_EQ(results, averages);
}

TEST(StagedReduction, SmallFloatsAreAddedAsFloat32AndRoundedOnce) {
  // 1.5 and 60000, whose sum over two ranks float16 does not hold.
  expect_widened(DType::float16, {0x3e00, 0x7b53}, {3, 120000}, {6, 240000}, {0x3e00, 0x7b53});
  expect_widened(DType::bfloat16, {0x3fc0, 0x4040}, {3, 6}, {6, 12.0625}, {0x3fc0, 0x4041});
}

TEST(StagedReduction, LongSmallFloatsGoBlockByBlock) {
  const StagedReduction reduction = *of(DType::float8_e5m2, ReduceOp::average, 1, 1, 2);
  std::vector<std::uint8_t> codes(5000, 0x40);  // 2
  std::vector<std::uint8_t> results(codes.size());
  GatherList list;
  list.append(codes.data(), results.data(), codes.size());
  std::vector<float> staged(codes.size());
  reduction.copy_in(list, 0, list.bytes(), reinterpret_cast<std::byte*>(staged.data()));
  EXPECT_EQ(staged, std::vector<float>(codes.size(), 2));
  staged.assign(codes.size(), 6);
  reduction.copy_out(list, 0, list.bytes(), reinterpret_cast<const std::byte*>(staged.data()), 0);
  EXPECT_EQ(results, std::vector<std::uint8_t>(codes.size(), 0x42)) << "3";
}

std::optional<StagedReduction> of_allreduce(DType dtype, ReduceOp op, const CollectiveLibrary& library) {
  return StagedReduction::of({dtype, op, 1, 1}, library, OpKind::allreduce);
}

TEST(StagedReduction, OfFewRanksAnAllreduceThatRoundsIsGathered) {
  for (const int ranks : {3, 4}) {
    const StubLibrary library(ranks);
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::complex64}) {
      const StagedReduction reduction = *of_allreduce(dtype, ReduceOp::average, library);
      EXPECT_TRUE(reduction.is_gathered());
      EXPECT_EQ(reduction.staged(80), 80u) << "as it is";
      EXPECT_EQ(reduction.received(80), static_cast<std::size_t>(80 * ranks));
    }
    EXPECT_TRUE(of_allreduce(DType::float32, ReduceOp::product, library)->is_gathered());
    EXPECT_FALSE(of_allreduce(DType::int64, ReduceOp::sum, library)->is_gathered()) << "in any order";
    EXPECT_FALSE(of_allreduce(DType::float32, ReduceOp::max, library)) << "left as ever";
    EXPECT_FALSE(of(DType::float32, ReduceOp::sum, 1, 1, ranks)->is_gathered()) << "no all-reduce";
  }
  for (const int ranks : {1, 2, 5, 64}) {
    EXPECT_FALSE(of_allreduce(DType::float32, ReduceOp::sum, StubLibrary(ranks))->is_gathered());
  }
}

TEST(StagedReduction, WhatIsGatheredIsReducedInTheOrderOfRanks) {
  const StagedReduction reduction =
      *StagedReduction::of({DType::float32, ReduceOp::average, 2, 0.5}, StubLibrary(3), OpKind::allreduce);
  std::vector<float> own{1, 2, 3};
  std::vector<float> results(3);
  GatherList list;
  list.append(own.data(), results.data(), 2 * sizeof(float));
  list.append(own.data() + 2, results.data() + 2, sizeof(float));
  std::vector<float> staged(3);
  reduction.copy_in(list, 0, list.bytes(), reinterpret_cast<std::byte*>(staged.data()));
  EXPECT_EQ(staged, own) << "scaled behind the library";
  const std::vector<float> all{1e8F, 1, 30, 1, 2, 60, -1e8F, 3, 90};  // rank after rank
  const auto* const memory = reinterpret_cast<const std::byte*>(all.data());
  reduction.copy_out(list, 0, sizeof(float), memory, 3 * sizeof(float));  // in parts
  reduction.copy_out(list, sizeof(float), list.bytes(), memory + sizeof(float), 3 * sizeof(float));
  EXPECT_THAT(results, ElementsAre(0, 2, 60)) << "(1e8 + 1) - 1e8 is 0, 1e8 - 1e8 + 1 is not";
}

}  // namespace
}  // namespace ronde::backend
