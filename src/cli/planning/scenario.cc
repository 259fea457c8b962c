#include "cli/planning/scenario.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "cli/measuring/report/format.h"
#include "cli/measuring/workload/sizes.h"
#include "collectives/slices.h"
#include "collectives/tuning/host_table.h"
#include "collectives/tuning/table_text.h"
#include "plan/model_step.h"
#include "plan/models.h"
#include "plan/simulation.h"
#include "plan/timeline_step.h"

namespace ronde::cli {

namespace {

constexpr int kDefaultBatch = 64;
constexpr int kMostHosts = 1 << 16;
constexpr int kMostRanks = 1 << 18;
constexpr std::uint64_t kLeastLimit = 128;
constexpr std::uint64_t kMostLimit = std::uint64_t{1} << 30;

Status wrong(const std::string& option, const std::string& what) {
  return Status::error(Code::invalid_argument, option + ": " + what);
}

/// That of --table, which is as RONDE_TABLE is, or the built-in one.
Result<collectives::HostTable> table_of(const PlanWords& words) {
  if (words.table.empty()) {
    return collectives::HostTable::built_in();
  }
  const Result<std::string> text = collectives::table_text_of("--table", words.table);
  Result<collectives::HostTable> table = text ? collectives::HostTable::parse(text.value()) : text.status();
  return table || !text ? std::move(table) : table.status().with_context("--table");
}

/// The table's for so many hosts, but for what was given.
Result<collectives::messages::MessageLimits> limits_of(const PlanWords& words, const collectives::HostTable& table,
                                                       int hosts) {
  collectives::messages::MessageLimits limits = table.of(hosts);
  const auto take = [](const std::string& option, const std::string& word, std::size_t& limit) -> Status {
    if (!word.empty()) {
      const std::optional<std::uint64_t> size = parse_size(word);
      if (!size || *size < kLeastLimit || *size > kMostLimit) {
        return wrong(option, "'" + word + "' is no size from 128 to 1G, such as 1M");
      }
      limit = collectives::round_up_to_line(*size);
    }
    return {};
  };
  RONDE_RETURN_IF_ERROR(take("--one-shot", words.one_shot, limits.one_turn));
  RONDE_RETURN_IF_ERROR(take("--chunk", words.chunk, limits.chunk));
  return limits;
}

Result<std::vector<plan::Cluster>> clusters_of(const PlanWords& words) {
  RONDE_ASSIGN_OR_RETURN(const collectives::HostTable table, table_of(words));
  if (words.ranks_per_host < 1) {
    return wrong("--ranks-per-host", "a host has one rank or more, not " + std::to_string(words.ranks_per_host));
  }
  std::vector<plan::Cluster> clusters;
  for (std::size_t begin = 0; begin <= words.hosts.size();) {
    const std::size_t end = std::min(words.hosts.find(',', begin), words.hosts.size());
    int hosts = 0;
    const char* const last = words.hosts.data() + end;
    const auto [stop, error] = std::from_chars(words.hosts.data() + begin, last, hosts);
    if (error != std::errc() || stop != last || hosts < 1 || hosts > kMostHosts) {
      return wrong("--hosts", "'" + words.hosts + "' is no list of numbers of hosts from 1 to " +
                                  std::to_string(kMostHosts) + ", with commas, such as 2,4,8");
    }
    RONDE_ASSIGN_OR_RETURN(const collectives::messages::MessageLimits limits, limits_of(words, table, hosts));
    clusters.push_back({hosts, words.ranks_per_host, limits});
    if (clusters.back().ranks() > kMostRanks) {
      return wrong("--ranks-per-host", std::to_string(hosts) + " hosts of " + std::to_string(words.ranks_per_host) +
                                           " ranks are more than " + std::to_string(kMostRanks) + " ranks");
    }
    begin = end + 1;
  }
  return clusters;
}

/// The step and how its time is known.
Status take_model(const PlanWords& words, Scenario& scenario) {
  RONDE_ASSIGN_OR_RETURN(plan::Model model, plan::find_model(words.model));
  const int batch = words.batch > 0 ? words.batch : kDefaultBatch;
  if (words.samples_per_second > 0) {
    model.samples_per_second = words.samples_per_second;
    model.rate_source = "--samples-per-second";
  }
  if (words.step_ms > 0) {
    scenario.step = plan::step_of(model, batch, words.step_ms * 1e6);
    model.rate_source = "--step-ms";
  } else {
    scenario.step = plan::step_of(model, batch);
  }
  scenario.about = format("%s: %.1f million parameters, %zu buckets; %s %d samples take %.1f ms (%s)",
                          model.title.c_str(), static_cast<double>(model.parameters()) * 1e-6,
                          scenario.step.buckets.size(), scenario.is_strong ? "on one rank all" : "a rank's", batch,
                          scenario.step.compute_ns * 1e-6, model.rate_source.c_str());
  return {};
}

Status take_timeline(const PlanWords& words, Scenario& scenario) {
  if (words.batch > 0 || words.samples_per_second > 0) {
    return wrong(words.batch > 0 ? "--batch" : "--samples-per-second",
                 "a timeline does not say how many samples a step has; leave it away, or give --step-ms");
  }
  RONDE_ASSIGN_OR_RETURN(plan::Step step, plan::read_timeline(words.timeline));
  if (words.step_ms > 0) {
    step = step.scaled(words.step_ms * 1e6 / step.compute_ns);
  }
  scenario.about = format("%s: %.1f MB in %zu buckets; a rank of %d computes %.1f ms a step (%s)", step.name.c_str(),
                          static_cast<double>(step.bytes()) * 1e-6, step.buckets.size(), step.ranks,
                          step.compute_ns * 1e-6, words.step_ms > 0 ? "--step-ms" : "the median of what was recorded");
  scenario.step = scenario.is_strong ? step.scaled(step.ranks) : step;
  scenario.step.ranks = 1;
  return {};
}

Status take_sizes(const PlanWords& words, Scenario& scenario) {
  if (words.batch > 0 || words.samples_per_second > 0 || words.step_ms > 0 || scenario.is_strong) {
    return wrong("--bytes", "single all-reduces have no samples and no step; leave the options of steps away");
  }
  const std::optional<std::vector<std::uint64_t>> sizes = parse_sizes(words.bytes);
  if (!sizes || std::find(sizes->begin(), sizes->end(), 0) != sizes->end()) {
    return wrong("--bytes", "'" + words.bytes + "' is no list of sizes such as 8,64K,1M");
  }
  scenario.sizes.assign(sizes->begin(), sizes->end());
  const std::size_t before = scenario.clusters.size();
  std::erase_if(scenario.clusters, [](const plan::Cluster& each) { return each.hosts == 1; });
  if (scenario.clusters.empty()) {
    return wrong("--hosts", "what one host's ranks take is not simulated: give two hosts or more");
  }
  if (scenario.clusters.size() < before) {
    scenario.notes.push_back("one host is left out: its ranks reduce in their memory, which is not simulated");
  }
  scenario.about = "single all-reduces of float32, which all ranks begin together";
  return {};
}

void drop_too_many_ranks(Scenario& scenario) {
  const int batch = scenario.step.samples;
  if (!scenario.is_strong || batch == 0) {
    return;
  }
  const std::size_t dropped =
      std::erase_if(scenario.clusters, [batch](const plan::Cluster& each) { return each.ranks() > batch; });
  if (dropped > 0) {
    scenario.notes.push_back("more ranks than the " + std::to_string(batch) + " samples of the batch are left out");
  }
}

}  // namespace

Result<Scenario> understood(const PlanWords& words) {
  const int sources = (words.model.empty() ? 0 : 1) + (words.timeline.empty() ? 0 : 1) + (words.bytes.empty() ? 0 : 1);
  if (sources != 1) {
    return Status::error(Code::invalid_argument,
                         "give one of --model, --timeline and --bytes: whose step, or which all-reduces, to plan");
  }
  Scenario scenario;
  if (words.scaling != "weak" && words.scaling != "strong") {
    return wrong("--scaling", "'" + words.scaling + "' is neither weak nor strong");
  }
  scenario.is_strong = words.scaling == "strong";
  RONDE_ASSIGN_OR_RETURN(scenario.clusters, clusters_of(words));
  RONDE_ASSIGN_OR_RETURN(scenario.fabric, plan::find_fabric(words.fabric));
  for (const std::string& assignment : words.set) {
    RONDE_RETURN_IF_ERROR(plan::set_parameter(scenario.fabric, assignment).with_context("--set"));
  }
  if (words.step_ms > 0 && words.samples_per_second > 0) {
    return wrong("--step-ms", "--samples-per-second says how long a step takes as well; leave one away");
  }
  if (!words.one_shot.empty() || !words.chunk.empty()) {
    const plan::Cluster& last = scenario.clusters.back();
    std::string row = collectives::HostTable::row_text(last.hosts, last.limits);
    row.pop_back();  // the end of its line
    scenario.notes.push_back("these are not the limits that are built in; RONDE_TABLE=\"" + row +
                             "\" would give them to a job");
  }
  if (!scenario.fabric.has_transport) {
    scenario.notes.push_back(
        "Ronde has no transport for RDMA yet: this is what its schedules would take over such links");
  }
  RONDE_RETURN_IF_ERROR(!words.model.empty()      ? take_model(words, scenario)
                        : !words.timeline.empty() ? take_timeline(words, scenario)
                                                  : take_sizes(words, scenario));
  drop_too_many_ranks(scenario);
  if (scenario.clusters.empty()) {
    return wrong("--hosts", "all have more ranks than the batch has samples; give fewer hosts or a larger --batch");
  }
  return scenario;
}

plan::Step step_on(const Scenario& scenario, const plan::Cluster& cluster) {
  if (!scenario.is_strong) {
    return scenario.step;
  }
  const int samples = scenario.step.samples;
  // The rank with the most samples is waited for.
  const double factor =
      samples > 0 ? std::ceil(static_cast<double>(samples) / cluster.ranks()) / samples : 1.0 / cluster.ranks();
  return scenario.step.scaled(factor);
}

double efficiency_of(const Scenario& scenario, const plan::Forecast& forecast) {
  return scenario.is_strong ? scenario.step.compute_ns / (forecast.cluster.ranks() * forecast.step_ns)
                            : forecast.efficiency;
}

double call_ns(const Scenario& scenario, const plan::Cluster& cluster, std::size_t bytes) {
  return plan::simulate(cluster, scenario.fabric, {{.name = "", .bytes = bytes}}).front();
}

}  // namespace ronde::cli
