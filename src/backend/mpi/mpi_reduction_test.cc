#include "backend/mpi/mpi_reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ronde::backend::mpi {
namespace {

using collectives::GatherList;
using testing::ElementsAre;

const Constants kConstants{.world = nullptr,
                           .byte = nullptr,
                           .float32 = reinterpret_cast<Handle>(1),
                           .float64 = reinterpret_cast<Handle>(2),
                           .int32 = reinterpret_cast<Handle>(3),
                           .int64 = reinterpret_cast<Handle>(4),
                           .sum = reinterpret_cast<Handle>(5),
                           .product = reinterpret_cast<Handle>(6),
                           .min = reinterpret_cast<Handle>(7),
                           .max = reinterpret_cast<Handle>(8),
                           .null_request = nullptr,
                           .errors_return = nullptr,
                           .in_place = nullptr,
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
  EXPECT_TRUE(of(DType::float32, ReduceOp::min, 0.5, 2));
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::int8, DType::uint8, DType::boolean}) {
    EXPECT_FALSE(of(dtype, ReduceOp::sum));
  }
  EXPECT_FALSE(of(DType::float32, ReduceOp::adasum));
  EXPECT_FALSE(of(DType::int32, ReduceOp::bit_and));
  EXPECT_FALSE(of(DType::int32, ReduceOp::average));
  EXPECT_FALSE(of(DType::int64, ReduceOp::sum, 2.0));
  EXPECT_FALSE(of(DType::int64, ReduceOp::sum, 1.0, 0.5));
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

}  // namespace
}  // namespace ronde::backend::mpi
