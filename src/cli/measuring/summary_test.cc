#include "cli/measuring/summary.h"

#include <gtest/gtest.h>

namespace ronde::cli {
namespace {

TEST(Summary, OneCall) {
  const Summary summary = summarize({2e-6});
  EXPECT_DOUBLE_EQ(summary.min_us, 2);
  EXPECT_DOUBLE_EQ(summary.median_us, 2);
  EXPECT_DOUBLE_EQ(summary.p99_us, 2);
}

TEST(Summary, MedianOfEvenAndOddCounts) {
  EXPECT_DOUBLE_EQ(summarize({3e-6, 1e-6, 2e-6}).median_us, 2);
  EXPECT_DOUBLE_EQ(summarize({4e-6, 1e-6, 3e-6, 2e-6}).median_us, 2.5);
}

TEST(Summary, NinetyNinthPercentileByRank) {
  std::vector<double> seconds;
  for (int i = 200; i >= 1; --i) {
    seconds.push_back(i * 1e-6);
  }
  EXPECT_DOUBLE_EQ(summarize(seconds).min_us, 1);
  EXPECT_DOUBLE_EQ(summarize(seconds).p99_us, 198);
  seconds.resize(20);  // 200 down to 181
  EXPECT_DOUBLE_EQ(summarize(seconds).p99_us, 200) << "of fewer than 100 the slowest";
}

TEST(Bandwidth, ByOperation) {
  const Bandwidth allreduce = bandwidth(BenchOp::allreduce, 1000, 4, 1e-6);
  EXPECT_DOUBLE_EQ(allreduce.algorithm, 1e9);
  EXPECT_DOUBLE_EQ(allreduce.bus, 1.5e9);
  EXPECT_DOUBLE_EQ(bandwidth(BenchOp::allgather, 1000, 4, 1e-6).bus, 3e9);
  EXPECT_DOUBLE_EQ(bandwidth(BenchOp::alltoall, 1000, 4, 1e-6).bus, 0.75e9);
  EXPECT_DOUBLE_EQ(bandwidth(BenchOp::broadcast, 1000, 4, 1e-6).bus, 1e9);
}

TEST(Bandwidth, NothingMovesNothing) {
  EXPECT_EQ(bandwidth(BenchOp::barrier, 0, 4, 1e-6).algorithm, 0);
  EXPECT_EQ(bandwidth(BenchOp::allreduce, 0, 4, 1e-6).bus, 0);
  EXPECT_EQ(bandwidth(BenchOp::allreduce, 8, 1, 1e-6).bus, 0);
}

}  // namespace
}  // namespace ronde::cli
