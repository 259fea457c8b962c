#include "cli/measuring/verification/expectation.h"

#include <gtest/gtest.h>

#include <vector>

namespace ronde::cli {
namespace {

BenchOptions options_of(BenchOp op) {
  BenchOptions options;
  options.op = op;
  options.dtype = "int32";
  return options;
}

constexpr std::uint64_t kElements = 1001;
constexpr std::uint64_t kBytes = kElements * sizeof(std::int32_t);
constexpr std::uint64_t kCall = 5;

/// What `rank` gives to the call.
std::vector<std::int32_t> input_of(int rank, int ranks) {
  std::vector<std::int32_t> values(kElements);
  Expectation(options_of(BenchOp::allreduce), rank, ranks).input.fill(values.data(), kBytes, kCall);
  return values;
}

std::vector<std::int32_t> sum_of_ranks(int count, int ranks) {
  std::vector<std::int32_t> sum(kElements);
  for (int rank = 0; rank < count; ++rank) {
    const std::vector<std::int32_t> input = input_of(rank, ranks);
    for (std::size_t i = 0; i < kElements; ++i) {
      sum[i] += input[i];
    }
  }
  return sum;
}

TEST(Expectation, SharesAreEqualButForTheFirst) {
  EXPECT_EQ(share_of(8, 0, 3), std::pair(std::uint64_t{0}, std::uint64_t{3}));
  EXPECT_EQ(share_of(8, 1, 3), std::pair(std::uint64_t{3}, std::uint64_t{3}));
  EXPECT_EQ(share_of(8, 2, 3), std::pair(std::uint64_t{6}, std::uint64_t{2}));
  EXPECT_EQ(share_of(1, 2, 3), std::pair(std::uint64_t{1}, std::uint64_t{0}));
}

TEST(Expectation, OfAReductionTheSumAndNothingElse) {
  const Expectation expected(options_of(BenchOp::allreduce), 1, 3);
  std::vector<std::int32_t> values = sum_of_ranks(3, 3);
  EXPECT_EQ(expected.check(values.data(), kBytes, kCall), "");
  EXPECT_NE(expected.check(values.data(), kBytes, kCall + 1), "") << "another call has other numbers";
  ++values[700];
  EXPECT_EQ(expected.check(values.data(), kBytes, kCall), "wrong result of call 5 on 4004 bytes, element 700");
}

TEST(Expectation, OfScansTheSumUpToAndBelowTheRank) {
  const std::vector<std::int32_t> up_to = sum_of_ranks(2, 3);
  EXPECT_EQ(Expectation(options_of(BenchOp::scan), 1, 3).check(up_to.data(), kBytes, kCall), "");
  const std::vector<std::int32_t> below = sum_of_ranks(1, 3);
  EXPECT_EQ(Expectation(options_of(BenchOp::exscan), 1, 3).check(below.data(), kBytes, kCall), "");
  EXPECT_NE(Expectation(options_of(BenchOp::exscan), 1, 3).check(up_to.data(), kBytes, kCall), "");
}

TEST(Expectation, OfAReduceAndAGatherTheRootsOnly) {
  const std::vector<std::int32_t> wrong(kElements * 3, -1);
  for (const BenchOp op : {BenchOp::reduce, BenchOp::gather}) {
    EXPECT_NE(Expectation(options_of(op), 0, 3).check(wrong.data(), kBytes, kCall), "");
    EXPECT_EQ(Expectation(options_of(op), 1, 3).check(wrong.data(), kBytes, kCall), "");
  }
}

TEST(Expectation, OfAGatherAllInputsOneAfterTheOther) {
  std::vector<std::int32_t> values;
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<std::int32_t> input = input_of(rank, 3);
    values.insert(values.end(), input.begin(), input.end());
  }
  const Expectation expected(options_of(BenchOp::allgather), 2, 3);
  EXPECT_EQ(expected.check(values.data(), kBytes, kCall), "");
  ++values[2 * kElements + 3];
  EXPECT_EQ(expected.check(values.data(), kBytes, kCall), "wrong result of call 5 on 4004 bytes, element 2005");
}

}  // namespace
}  // namespace ronde::cli
