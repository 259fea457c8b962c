#include "cli/measuring/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::cli {
namespace {

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

TEST(Report, Json) {
  EXPECT_EQ(json_line({.form = BenchForm::slot, .dtype = "bfloat16"}, 4, kMeasurement),
            R"({"peer":"ronde","op":"allreduce","dtype":"bfloat16","ranks":4,"bytes":65536,"place":"out_of_place",)"
            R"("form":"slot","min_us":7.123,"median_us":8.0,"p99_us":1234.5})"
            "\n");
}

}  // namespace
}  // namespace ronde::cli
