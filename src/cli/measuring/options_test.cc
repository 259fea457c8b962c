#include "cli/measuring/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BenchOptions, NamesAndBack) {
  for (BenchOp op : {BenchOp::allreduce, BenchOp::broadcast, BenchOp::allgather, BenchOp::barrier}) {
    EXPECT_EQ(parse_bench_op(bench_op_name(op)), op);
  }
  EXPECT_EQ(parse_bench_op("alltoall"), std::nullopt);
  EXPECT_EQ(parse_bench_dtype("bfloat16"), RONDE_BFLOAT16);
  EXPECT_EQ(parse_bench_dtype("complex64"), std::nullopt);
  for (const std::string& name : bench_dtype_names()) {
    EXPECT_TRUE(parse_bench_dtype(name)) << name;
  }
}

TEST(BenchOptions, WhatMakesNoSenseIsASentence) {
  EXPECT_EQ(check_options({.bytes = {8, 1024}}), "");
  EXPECT_EQ(check_options({.dtype = "float64", .bytes = {8, 4}}), "--bytes 4 is no multiple of 8, the size of float64");
  EXPECT_EQ(check_options({.dtype = "uint8", .bytes = {7}}), "");
  EXPECT_THAT(check_options({.op = BenchOp::allgather, .bytes = {8}, .in_place = true}), HasSubstr("in place"));
  EXPECT_THAT(check_options({.op = BenchOp::barrier, .in_place = true}), HasSubstr("in place"));
  EXPECT_EQ(check_options({.op = BenchOp::barrier}), "");
}

TEST(BenchOptions, ArgumentsAskForTheSame) {
  EXPECT_THAT(to_arguments({.bytes = {8, 1 << 20}, .in_place = true, .json = true}),
              ElementsAre("bench", "allreduce", "--form", "name", "--dtype", "float32", "--bytes", "8,1M", "--in-place",
                          "--json"));
  EXPECT_THAT(
      to_arguments({.op = BenchOp::barrier, .form = BenchForm::slot, .iterations = 7, .progress = true}),
      ElementsAre("bench", "barrier", "--form", "slot", "--dtype", "float32", "--iterations", "7", "--progress"));
}

TEST(BenchOptions, FewerCallsOfLargeTensors) {
  EXPECT_EQ(iterations_for(0), 2000u);
  EXPECT_EQ(iterations_for(8), 2000u);
  EXPECT_EQ(iterations_for(1 << 20), 512u);
  EXPECT_EQ(iterations_for(16 << 20), 32u);
  EXPECT_EQ(iterations_for(1 << 30), 20u);
  EXPECT_EQ(warm_up_for(20), 2u);
  EXPECT_EQ(warm_up_for(2000), 100u);
}

}  // namespace
}  // namespace ronde::cli
