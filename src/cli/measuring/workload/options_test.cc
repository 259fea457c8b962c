#include "cli/measuring/workload/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BenchOptions, NamesAndBack) {
  for (const std::string& name : bench_op_names()) {
    const std::optional<BenchOp> op = parse_bench_op(name);
    ASSERT_TRUE(op) << name;
    EXPECT_EQ(bench_op_name(*op), name);
  }
  EXPECT_EQ(parse_bench_op("alltoall"), BenchOp::alltoall);
  EXPECT_EQ(parse_bench_op("send"), std::nullopt);
  EXPECT_EQ(
      bench_op_choice(),
      "allreduce, broadcast, allgather, barrier, alltoall, reducescatter, reduce, gather, scatter, scan or exscan");
  for (BenchForm form : {BenchForm::name, BenchForm::slot, BenchForm::persistent}) {
    EXPECT_EQ(parse_bench_form(bench_form_name(form)), form);
  }
  for (SetMode mode : {SetMode::async, SetMode::blocking, SetMode::flat, SetMode::packed}) {
    EXPECT_EQ(parse_set_mode(set_mode_name(mode)), mode);
  }
  EXPECT_EQ(parse_bench_dtype("bfloat16"), RONDE_BFLOAT16);
  EXPECT_EQ(parse_bench_dtype("complex64"), std::nullopt);
  for (const std::string& name : bench_dtype_names()) {
    ASSERT_TRUE(parse_bench_dtype(name)) << name;
    EXPECT_GT(bench_dtype_bytes(*parse_bench_dtype(name)), 0u) << name;
  }
  EXPECT_EQ(bench_dtype_bytes(RONDE_COMPLEX64), 0u);
}

TEST(BenchOptions, WhatMakesNoSenseIsASentence) {
  EXPECT_EQ(check_options({.bytes = {8, 1024}}), "");
  EXPECT_EQ(check_options({.dtype = "float64", .bytes = {8, 4}}), "--bytes 4 is no multiple of 8, the size of float64");
  EXPECT_EQ(check_options({.dtype = "uint8", .bytes = {7}}), "");
  EXPECT_THAT(check_options({.op = BenchOp::allgather, .bytes = {8}, .in_place = true}), HasSubstr("in place"));
  EXPECT_THAT(check_options({.op = BenchOp::scatter, .bytes = {8}, .in_place = true}), HasSubstr("scatter makes"));
  EXPECT_EQ(check_options({.op = BenchOp::reduce, .bytes = {8}, .in_place = true}), "");
  EXPECT_THAT(check_options({.op = BenchOp::barrier, .in_place = true}), HasSubstr("in place"));
  EXPECT_EQ(check_options({.op = BenchOp::barrier}), "");
  EXPECT_THAT(check_options({.op = BenchOp::barrier, .shared = true}), HasSubstr("shared memory"));
  EXPECT_THAT(check_options({.op = BenchOp::barrier, .plot = "x.svg"}), HasSubstr("nothing to plot"));
  EXPECT_THAT(check_options({.op = BenchOp::allgather, .form = BenchForm::persistent, .bytes = {8}}),
              HasSubstr("--form name or slot"));
}

TEST(BenchOptions, WhatGoesWithASet) {
  EXPECT_EQ(check_options({.set = "resnet50"}), "");
  EXPECT_EQ(check_options({.op = BenchOp::broadcast, .set = "3000x1K", .mode = SetMode::packed}), "");
  EXPECT_EQ(check_options({.set = "hepcnn", .mode = SetMode::blocking, .overlap_us = 10}), "");
  EXPECT_THAT(check_options({.op = BenchOp::allgather, .set = "resnet50"}), HasSubstr("allreduce or broadcast"));
  EXPECT_THAT(check_options({.set = "resnet50", .plot = "x.svg"}), HasSubstr("--plot"));
  EXPECT_THAT(check_options({.set = "resnet50", .mode = SetMode::flat, .overlap_us = 10}), HasSubstr("--overlap"));
  EXPECT_THAT(check_options({.set = "alexnet"}), HasSubstr("'alexnet' is neither a model (resnet50, "));
  EXPECT_THAT(check_options({.dtype = "float64", .set = "10x4"}), HasSubstr("no multiple of 8"));
  EXPECT_THAT(check_options({.bytes = {8}, .mode = SetMode::flat}), HasSubstr("--mode is for a set"));
  EXPECT_THAT(check_options({.bytes = {8}, .overlap_us = 1}), HasSubstr("--overlap is for a set"));
}

TEST(BenchOptions, ArgumentsAskForTheSame) {
  EXPECT_THAT(to_arguments({.bytes = {8, 1 << 20}, .in_place = true, .json = true}),
              ElementsAre("bench", "allreduce", "--form", "name", "--dtype", "float32", "--bytes", "8,1M", "--in-place",
                          "--json"));
  EXPECT_THAT(to_arguments({.form = BenchForm::persistent,
                            .set = "resnet50",
                            .mode = SetMode::blocking,
                            .overlap_us = 2.5,
                            .shared = true}),
              ElementsAre("bench", "allreduce", "--form", "persistent", "--dtype", "float32", "--gradients", "resnet50",
                          "--mode", "blocking", "--overlap", "2.500000", "--shared"));
  EXPECT_THAT(to_arguments({.set = "30x1K", .seconds = 1}),
              ElementsAre("bench", "allreduce", "--form", "name", "--dtype", "float32", "--many", "30x1K", "--mode",
                          "async", "--seconds", "1.000000"));
  EXPECT_THAT(
      to_arguments({.bytes = {8}, .plot = "a b.svg"}),
      ElementsAre("bench", "allreduce", "--form", "name", "--dtype", "float32", "--bytes", "8", "--plot", "a b.svg"));
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
