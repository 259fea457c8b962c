#include "cli/measuring/report/report.h"

#include <gmock/gmock.h>
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

const Measurement kMeasurement{
    .bytes = 65536, .calls = 300, .summary = {.min_us = 7.1234, .median_us = 8, .p99_us = 1234.5}};

TEST(Report, TableIsAligned) {
  const BenchOptions options{.in_place = true};
  EXPECT_EQ(table_head(options, 2),
            "allreduce float32, in place, 2 ranks, by name; a call takes as long as its slowest rank\n"
            "   bytes    calls       min us    median us       p99 us    algo GB/s     bus GB/s\n");
  EXPECT_EQ(table_row(options, 2, kMeasurement),
            "     64K      300         7.12         8.00      1234.50        8.192        8.192\n");
}

TEST(Report, ABarrierHasNoBandwidth) {
  const BenchOptions options{.op = BenchOp::barrier, .form = BenchForm::slot};
  EXPECT_THAT(table_head(options, 3), testing::StartsWith("barrier, 3 ranks, by slot;"));
  EXPECT_EQ(table_row(options, 3, {.calls = 10, .summary = {1, 2, 3}}),
            "       0       10         1.00         2.00         3.00            -            -\n");
}

TEST(Report, ASetSaysHowItIsHandedOverAndWhatIsExposed) {
  const BenchOptions options{.set = "resnet50", .mode = SetMode::blocking, .overlap_us = 5, .shared = true};
  const Measurement measurement{
      .bytes = 4096, .tensors = 161, .calls = 20, .summary = {10, 12.5, 20}, .compute_us = 4, .line_ns = 50.5};
  EXPECT_EQ(
      table_head(options, 2),
      "allreduce float32, out of place, shared memory, resnet50 one after the other, 2 ranks, by name; a call takes "
      "as long as its slowest rank\n"
      "   bytes    calls       min us    median us       p99 us    algo GB/s     bus GB/s   compute us   exposed us\n");
  EXPECT_EQ(
      table_row(options, 2, measurement),
      "      4K       20        10.00        12.50        20.00        0.328        0.328         4.00         8.50\n");
  EXPECT_EQ(json_line("ronde", options, 2, measurement),
            R"({"peer":"ronde","op":"allreduce","dtype":"float32","ranks":2,"bytes":4096,"place":"out_of_place",)"
            R"("form":"name","memory":"shared","set":"resnet50","mode":"blocking","tensors":161,"compute_us":4.0,)"
            R"("exposed_us":8.5,"line_ns":50.5,"calls":20,"min_us":10.0,"median_us":12.5,"p99_us":20.0})"
            "\n");
}

TEST(Report, Json) {
  EXPECT_EQ(json_line("some_peer", {.form = BenchForm::slot, .dtype = "bfloat16"}, 4, kMeasurement),
            R"({"peer":"some_peer","op":"allreduce","dtype":"bfloat16","ranks":4,"bytes":65536,"place":"out_of_place",)"
            R"("form":"slot","memory":"private","calls":300,"min_us":7.123,"median_us":8.0,"p99_us":1234.5})"
            "\n");
}

}  // namespace
}  // namespace ronde::cli
