#include "cli/planning/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/planning/plan_plot.h"

namespace ronde::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

Scenario scenario() {
  Scenario scenario;
  scenario.step = {.name = "Net & Co", .compute_ns = 80e6, .buckets = {}};
  scenario.fabric.name = "wire";
  scenario.about = "what it is";
  scenario.notes = {"mind the gap"};
  return scenario;
}

std::vector<plan::Forecast> forecasts() {
  plan::Forecast one{.cluster = {1, 2}, .compute_ns = 80e6, .step_ns = 80e6, .efficiency = 1};
  plan::Forecast many{.cluster = {8, 2}, .compute_ns = 80e6, .step_ns = 100e6, .efficiency = 0.8};
  many.without_bandwidth_ns = 85e6;
  many.without_messages_ns = 99e6;
  many.without_processor_ns = 100e6;
  many.bound = plan::Bound::bandwidth;
  return {one, many};
}

TEST(PlanReport, ATableHasARowForEachCluster) {
  const std::string table = step_table(scenario(), forecasts());
  EXPECT_THAT(table, testing::StartsWith("what it is\nwire: latency 0 us"));
  EXPECT_THAT(table, ContainsRegex(" 1 +2 +80\\.00 +80\\.00 +0\\.00 +100\\.0 %  compute +- +- +-\n"));
  EXPECT_THAT(table,
              ContainsRegex(" 8 +16 +80\\.00 +100\\.00 +20\\.00 +80\\.0 %  bandwidth +15\\.00 +1\\.00 +0\\.00\n"));
  EXPECT_THAT(table, testing::EndsWith("note: mind the gap\n"));
}

TEST(PlanReport, JsonSaysTheSame) {
  const std::string lines = step_json(scenario(), forecasts());
  const auto last = nlohmann::json::parse(lines.substr(lines.find('\n') + 1));
  EXPECT_EQ(last["hosts"], 8);
  EXPECT_EQ(last["ranks"], 16);
  EXPECT_EQ(last["bound"], "bandwidth");
  EXPECT_DOUBLE_EQ(last["step_ms"], 100);
  EXPECT_DOUBLE_EQ(last["efficiency"], 0.8);
}

TEST(PlanReport, CallsHaveSizesAndTimes) {
  const std::vector<CallForecast> calls{{{2, 1}, 1 << 20, 2e6}};
  EXPECT_THAT(call_table(scenario(), calls), ContainsRegex(" 2 +2 +1M +2000\\.0 +0\\.524\n"));
  EXPECT_DOUBLE_EQ(nlohmann::json::parse(call_json(scenario(), calls))["time_us"], 2000);
}

TEST(PlanPlot, HasAPointForEachCluster) {
  const std::string svg = efficiency_svg(scenario(), forecasts());
  EXPECT_THAT(svg, HasSubstr("Net &amp; Co on wire, weak scaling"));
  EXPECT_THAT(svg, HasSubstr("<title>2 ranks: 100.0 %</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>16 ranks: 80.0 %</title>"));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
}

}  // namespace
}  // namespace ronde::cli
