// Scenario: what `ronde plan` was asked, understood: which step, on which fabric, on which clusters.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/cluster.h"
#include "plan/fabric.h"
#include "plan/forecast.h"
#include "plan/step.h"

namespace ronde::cli {

/// As people write it.
struct PlanWords {
  std::string model = {};
  std::string timeline = {};
  std::string bytes = {};
  std::string fabric = "tcp-10g";
  std::vector<std::string> set = {};  ///< "latency_us=20"
  std::string hosts = "1,2,4,8,16,32,64,128,256,512,1024,2048,4096";
  int ranks_per_host = 1;
  int batch = 0;  ///< 0: not given, as the next two
  double step_ms = 0;
  double samples_per_second = 0;
  std::string scaling = "weak";
  std::string table = {};     ///< as RONDE_TABLE has it; empty: the built-in one
  std::string one_shot = {};  ///< sizes, in place of that table's limits
  std::string chunk = {};
};

struct Scenario {
  /// Of a rank; in strong scaling of one that computes the whole batch alone. None if there are `sizes`.
  plan::Step step;
  std::vector<std::size_t> sizes;  ///< of single all-reduces, in place of a step
  plan::Fabric fabric;
  std::vector<plan::Cluster> clusters;
  bool is_strong = false;
  std::string about;               ///< a line for people: what is computed, and where its time is from
  std::vector<std::string> notes;  ///< sentences that people should know
};

/// INVALID_ARGUMENT with a sentence that names the option.
Result<Scenario> understood(const PlanWords& words);

/// The step of a rank on this cluster.
plan::Step step_on(const Scenario& scenario, const plan::Cluster& cluster);
/// In weak scaling compute over step, in strong the speed-up over one rank for each rank.
double efficiency_of(const Scenario& scenario, const plan::Forecast& forecast);
/// Of one all-reduce that all ranks begin together. Requires: several hosts.
double call_ns(const Scenario& scenario, const plan::Cluster& cluster, std::size_t bytes);

}  // namespace ronde::cli
