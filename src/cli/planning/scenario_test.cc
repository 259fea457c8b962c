#include "cli/planning/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/measuring/workload/tensor_sets.h"
#include "plan/models.h"

namespace ronde::cli {
namespace {

using testing::HasSubstr;

std::string said(const PlanWords& words) { return understood(words).status().message(); }

TEST(Scenario, AModelHasTheTensorsThatTheBenchMeasures) {
  for (const std::string& key : plan::model_keys()) {
    const plan::Model model = plan::find_model(key).value();
    std::vector<std::uint64_t> elements;
    for (const plan::Layer& layer : model.layers) {
      elements.insert(elements.end(), layer.tensors.begin(), layer.tensors.end());
    }
    std::reverse(elements.begin(), elements.end());
    EXPECT_EQ(elements, tensor_set(key).elements) << key;
  }
}

TEST(Scenario, WeakScalingLeavesEachRankItsSamples) {
  Result<Scenario> scenario = understood({.model = "resnet50", .hosts = "1,8", .batch = 219});
  ASSERT_TRUE(scenario) << scenario.status().message();
  EXPECT_NEAR(scenario->step.compute_ns, 1e9, 1);
  EXPECT_NEAR(step_on(*scenario, {8, 1}).compute_ns, 1e9, 1);
}

TEST(Scenario, StrongScalingSharesTheSamplesOut) {
  Result<Scenario> scenario =
      understood({.model = "vgg16", .hosts = "1,8,64,512", .batch = 100, .step_ms = 1000, .scaling = "strong"});
  ASSERT_TRUE(scenario) << scenario.status().message();
  EXPECT_NEAR(step_on(*scenario, {8, 1}).compute_ns, 130e6, 1);  // 13 samples of 100
  EXPECT_EQ(scenario->clusters.size(), 3);
  EXPECT_THAT(scenario->notes, testing::ElementsAre(HasSubstr("more ranks than the 100 samples")));
  // Eight ranks of which each takes as long as one computes an eighth: all of it is used.
  EXPECT_DOUBLE_EQ(efficiency_of(*scenario, {.cluster = {8, 1}, .step_ns = 125e6}), 1);
}

TEST(Scenario, SingleCallsHaveNoHostOfTheirOwn) {
  Result<Scenario> scenario = understood({.bytes = "8,1M", .hosts = "1,2"});
  ASSERT_TRUE(scenario) << scenario.status().message();
  EXPECT_THAT(scenario->sizes, testing::ElementsAre(8, 1 << 20));
  ASSERT_EQ(scenario->clusters.size(), 1);
  EXPECT_GT(call_ns(*scenario, scenario->clusters.front(), 8), 20e3);
}

TEST(Scenario, OtherLimitsAreNotedWithTheRowThatGivesThem) {
  const Result<Scenario> scenario = understood({.bytes = "64M", .hosts = "32", .one_shot = "1K", .chunk = "1M"});
  ASSERT_TRUE(scenario) << scenario.status().message();
  const plan::Cluster& cluster = scenario.value().clusters.front();
  EXPECT_EQ(cluster.limits.one_turn, 1024);
  EXPECT_EQ(cluster.limits.chunk, 1 << 20);
  EXPECT_THAT(scenario.value().notes, testing::ElementsAre(HasSubstr("RONDE_TABLE=\"hosts 32: one_turn 1024, ")));
}

TEST(Scenario, TakesATableOfLimits) {
  const Result<Scenario> scenario =
      understood({.bytes = "8", .hosts = "4,64", .table = "hosts 8: turn 3; hosts any: turn 5, chunk 4096"});
  ASSERT_TRUE(scenario) << scenario.status().message();
  EXPECT_EQ(scenario.value().clusters[0].limits.turn, 3);
  EXPECT_EQ(scenario.value().clusters[1].limits.turn, 5);
  EXPECT_EQ(scenario.value().clusters[1].limits.chunk, 4096);
  EXPECT_TRUE(scenario.value().notes.empty());
  EXPECT_THAT(said({.bytes = "8", .table = "hosts 2: turns 3"}), HasSubstr("--table: in the row"));
  EXPECT_THAT(said({.bytes = "8", .table = "/no/such/file"}), HasSubstr("--table names the file /no/such/file"));
}

TEST(Scenario, WhatIsWrongIsSaidWithItsOption) {
  EXPECT_THAT(said({}), HasSubstr("give one of --model, --timeline and --bytes"));
  EXPECT_THAT(said({.model = "vgg16", .bytes = "8"}), HasSubstr("give one of"));
  EXPECT_THAT(said({.model = "alexnet"}), HasSubstr("no model 'alexnet'"));
  EXPECT_THAT(said({.model = "vgg16", .hosts = "2,x"}), HasSubstr("--hosts: '2,x' is no list"));
  EXPECT_THAT(said({.model = "vgg16", .hosts = "2,"}), HasSubstr("--hosts: '2,' is no list"));
  EXPECT_THAT(said({.model = "vgg16", .hosts = "0"}), HasSubstr("--hosts: '0' is no list"));
  EXPECT_THAT(said({.model = "vgg16", .ranks_per_host = 0}), HasSubstr("--ranks-per-host: a host has one rank"));
  EXPECT_THAT(said({.model = "vgg16", .hosts = "65536", .ranks_per_host = 8}), HasSubstr("are more than"));
  EXPECT_THAT(said({.model = "vgg16", .scaling = "super"}), HasSubstr("--scaling: 'super' is neither"));
  EXPECT_THAT(said({.model = "vgg16", .fabric = "token-ring"}), HasSubstr("'token-ring' is neither"));
  EXPECT_THAT(said({.model = "vgg16", .set = {"lag=1"}}), HasSubstr("--set: 'lag=1' sets no parameter"));
  EXPECT_THAT(said({.model = "vgg16", .step_ms = 1, .samples_per_second = 1}), HasSubstr("leave one away"));
  EXPECT_THAT(said({.model = "vgg16", .hosts = "128", .scaling = "strong"}), HasSubstr("more ranks than the batch"));
  EXPECT_THAT(said({.timeline = "x", .batch = 3}), HasSubstr("--batch: a timeline does not say"));
  EXPECT_THAT(said({.timeline = "no-such.json"}), HasSubstr("'no-such.json' cannot be read"));
  EXPECT_THAT(said({.bytes = "8,x"}), HasSubstr("--bytes: '8,x' is no list of sizes"));
  EXPECT_THAT(said({.bytes = "0"}), HasSubstr("--bytes: '0' is no list of sizes"));
  EXPECT_THAT(said({.bytes = "8", .hosts = "1"}), HasSubstr("give two hosts or more"));
  EXPECT_THAT(said({.bytes = "8", .chunk = "64"}), HasSubstr("--chunk: '64' is no size from 128 to 1G"));
  EXPECT_THAT(said({.bytes = "8", .batch = 3}), HasSubstr("have no samples"));
}

}  // namespace
}  // namespace ronde::cli
