#include "cli/planning/plan_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/measuring/report/format.h"
#include "cli/measuring/workload/sizes.h"

namespace ronde::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string head(const Scenario& scenario) {
  const plan::Fabric& fabric = scenario.fabric;
  std::string text = scenario.about + "\n";
  text +=
      format("%s: latency %g us, overhead %g us a message, links of %.4g Gbit/s payload, %g ns a byte on a processor\n",
             fabric.name.c_str(), fabric.latency_us, fabric.overhead_us, fabric.link_gbit, fabric.cpu_ns_per_byte);
  return text;
}

std::string notes(const Scenario& scenario) {
  std::string text;
  for (const std::string& note : scenario.notes) {
    text += "note: " + note + "\n";
  }
  return text;
}

/// Milliseconds by which the step would be shorter; a dash where that was not asked.
std::string saved(const plan::Forecast& forecast, double without_ns) {
  return forecast.bound == plan::Bound::compute ? "-"
                                                : format("%.2f", std::max(0.0, forecast.step_ns - without_ns) * 1e-6);
}

}  // namespace

std::string step_table(const Scenario& scenario, const std::vector<plan::Forecast>& forecasts) {
  std::string text = head(scenario);
  text += format("%s scaling; by how many ms a step would be shorter if this cost nothing: in the last three columns\n",
                 scenario.is_strong ? "strong" : "weak");
  text += format("%6s %7s %11s %11s %11s %10s  %-9s %10s %10s %10s\n", "hosts", "ranks", "compute ms", "step ms",
                 "waiting ms", "efficiency", "bound by", "bandwidth", "messages", "processor");
  for (const plan::Forecast& each : forecasts) {
    text += format("%6d %7d %11.2f %11.2f %11.2f %8.1f %%  %-9s %10s %10s %10s\n", each.cluster.hosts,
                   each.cluster.ranks(), each.compute_ns * 1e-6, each.step_ns * 1e-6, each.exposed_ns() * 1e-6,
                   100 * efficiency_of(scenario, each), std::string(plan::bound_name(each.bound)).c_str(),
                   saved(each, each.without_bandwidth_ns).c_str(), saved(each, each.without_messages_ns).c_str(),
                   saved(each, each.without_processor_ns).c_str());
  }
  return text + notes(scenario);
}

std::string call_table(const Scenario& scenario, const std::vector<CallForecast>& forecasts) {
  std::string text = head(scenario);
  text += format("%6s %7s %12s %14s %12s\n", "hosts", "ranks", "bytes", "time us", "algo GB/s");
  for (const CallForecast& each : forecasts) {
    text += format("%6d %7d %12s %14.1f %12.3f\n", each.cluster.hosts, each.cluster.ranks(),
                   size_text(each.bytes).c_str(), each.time_ns * 1e-3, static_cast<double>(each.bytes) / each.time_ns);
  }
  return text + notes(scenario);
}

std::string step_json(const Scenario& scenario, const std::vector<plan::Forecast>& forecasts) {
  std::string text;
  for (const plan::Forecast& each : forecasts) {
    const Json line = {{"step", scenario.step.name},
                       {"fabric", scenario.fabric.name},
                       {"scaling", scenario.is_strong ? "strong" : "weak"},
                       {"hosts", each.cluster.hosts},
                       {"ranks", each.cluster.ranks()},
                       {"compute_ms", each.compute_ns * 1e-6},
                       {"step_ms", each.step_ns * 1e-6},
                       {"efficiency", efficiency_of(scenario, each)},
                       {"bound", plan::bound_name(each.bound)},
                       {"without_bandwidth_ms", each.without_bandwidth_ns * 1e-6},
                       {"without_messages_ms", each.without_messages_ns * 1e-6},
                       {"without_processor_ms", each.without_processor_ns * 1e-6}};
    text += line.dump() + "\n";
  }
  return text;
}

std::string call_json(const Scenario& scenario, const std::vector<CallForecast>& forecasts) {
  std::string text;
  for (const CallForecast& each : forecasts) {
    const Json line = {{"fabric", scenario.fabric.name},
                       {"hosts", each.cluster.hosts},
                       {"ranks", each.cluster.ranks()},
                       {"bytes", each.bytes},
                       {"time_us", each.time_ns * 1e-3}};
    text += line.dump() + "\n";
  }
  return text;
}

}  // namespace ronde::cli
