// What `ronde plan` prints: tables for people, lines of JSON for programs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/planning/scenario.h"
#include "plan/forecast.h"

namespace ronde::cli {

/// One all-reduce on one cluster.
struct CallForecast {
  plan::Cluster cluster;
  std::size_t bytes = 0;
  double time_ns = 0;
};

std::string step_table(const Scenario& scenario, const std::vector<plan::Forecast>& forecasts);
std::string call_table(const Scenario& scenario, const std::vector<CallForecast>& forecasts);
/// An object a line for each cluster.
std::string step_json(const Scenario& scenario, const std::vector<plan::Forecast>& forecasts);
/// An object a line for each cluster and size.
std::string call_json(const Scenario& scenario, const std::vector<CallForecast>& forecasts);

}  // namespace ronde::cli
