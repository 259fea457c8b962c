#include "cli/measuring/report/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

Measurement at(std::uint64_t bytes, double median_us) {
  return {.bytes = bytes, .calls = 10, .summary = {median_us / 2, median_us, median_us * 2}};
}

TEST(Plot, ShowsEverySizeWithItsMedian) {
  const std::string svg = plot_svg("a title", {at(8, 0.4), at(1 << 20, 120)});
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns="));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr(">a title</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>8: 0.40 us</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>1M: 120.00 us</title>"));
  EXPECT_THAT(svg, HasSubstr(">100 ns</text>")) << "the power of ten below the fastest call";
  EXPECT_THAT(svg, HasSubstr(">1 ms</text>")) << "the one above the slowest";
}

TEST(Plot, LargerIsToTheRightAndSlowerIsHigher) {
  const std::string svg = plot_svg("", {at(1 << 20, 100), at(1024, 1)});
  // Sorted by size: from the left edge to the right, and up (SVG counts from the top).
  const std::size_t line = svg.find("<polyline");
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  ASSERT_EQ(std::sscanf(svg.c_str() + svg.find("points=\"", line), "points=\"%lf,%lf %lf,%lf", &x1, &y1, &x2, &y2), 4);
  EXPECT_LT(x1, x2);
  EXPECT_GT(y1, y2);
}

TEST(Plot, WhatHasNoLogarithmIsLeftOut) {
  const std::string svg = plot_svg("", {at(0, 5), at(64, 0)});
  EXPECT_THAT(svg, Not(HasSubstr("circle")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(plot_svg("", {at(64, 5)}), Not(HasSubstr("nan"))) << "one size has no width of its own";
}

TEST(Plot, TheTitleIsText) { EXPECT_THAT(plot_svg("a<b & c", {}), HasSubstr("a&lt;b &amp; c")); }

TEST(Plot, TitleSaysWhatWasMeasured) {
  EXPECT_EQ(plot_title({.in_place = true}, 2), "allreduce float32, in place, 2 ranks, by name");
}

TEST(Plot, AFileThatCannotBeWrittenIsASentence) {
  EXPECT_THAT(write_plot("no/such/folder/x.svg", "", {}), HasSubstr("cannot write the plot to 'no/such/folder/x.svg'"));
}

}  // namespace
}  // namespace ronde::cli
