#include "cli/planning/plan_plot.h"

#include <algorithm>
#include <cmath>

#include "cli/measuring/report/format.h"
#include "cli/measuring/report/svg.h"

namespace ronde::cli {

std::string efficiency_svg(const Scenario& scenario, const std::vector<plan::Forecast>& forecasts) {
  const std::string title =
      scenario.step.name + " on " + scenario.fabric.name + ", " + (scenario.is_strong ? "strong" : "weak") + " scaling";
  std::string svg = svg_head(title);
  int least = forecasts.front().cluster.ranks();
  int most = least;
  for (const plan::Forecast& each : forecasts) {
    least = std::min(least, each.cluster.ranks());
    most = std::max(most, each.cluster.ranks());
  }
  const LogAxis x(2, least, most, kPlotLeft, kPlotWidth - kPlotRight);
  const auto y = [](double percent) {
    return kPlotHeight - kPlotBottom - percent / 100 * (kPlotHeight - kPlotBottom - kPlotTop);
  };
  for (double power = x.low; power <= x.high; ++power) {
    svg += svg_upright(x.pixel(std::pow(2, power)), format("%.0f", std::pow(2, power)));
  }
  for (int percent = 0; percent <= 100; percent += 20) {
    svg += svg_level(y(percent), format("%d %%", percent));
  }
  std::string line;
  for (const plan::Forecast& each : forecasts) {
    const double at = x.pixel(each.cluster.ranks());
    const double percent = std::min(100.0, 100 * efficiency_of(scenario, each));
    line += format("%.1f,%.1f ", at, y(percent));
    svg +=
        format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#1f5fa8\"><title>%d ranks: %.1f %%</title></circle>\n",
               at, y(percent), each.cluster.ranks(), percent);
  }
  return svg + "<polyline class=\"m\" points=\"" + line + "\"/>\n" + svg_foot("ranks; efficiency");
}

}  // namespace ronde::cli
