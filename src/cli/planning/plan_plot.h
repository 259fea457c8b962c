// A picture of how a step scales: efficiency over ranks, as an SVG file.
#pragma once

#include <string>
#include <vector>

#include "cli/planning/scenario.h"
#include "plan/forecast.h"

namespace ronde::cli {

/// The text of the picture: ranks on a logarithmic axis, efficiency in percent.
std::string efficiency_svg(const Scenario& scenario, const std::vector<plan::Forecast>& forecasts);

}  // namespace ronde::cli
