#include "plan/forecast.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "plan/simulation.h"

namespace ronde::plan {

namespace {

constexpr double kWorthNaming = 0.01;
constexpr double kEndlessGbit = 1e15;

/// When the ranks of one host have the last bucket: each copies in, adds its part of all and copies out.
double in_one_host_ns(const Step& step, const Cluster& cluster, const Fabric& fabric) {
  double now = 0;
  for (const StepBucket& bucket : step.buckets) {
    const auto bytes = static_cast<double>(bucket.bytes);
    const double work_ns = bytes * (2 * fabric.memory_ns_per_byte + fabric.reduce_ns_per_byte);
    now = std::max(now, bucket.ready_ns) + (cluster.ranks() > 1 ? 2 * fabric.memory_us * 1e3 + work_ns : 0);
  }
  return now;
}

}  // namespace

std::string_view bound_name(Bound bound) {
  switch (bound) {
    case Bound::compute: return "compute";
    case Bound::bandwidth: return "bandwidth";
    case Bound::messages: return "messages";
    case Bound::processor: return "processor";
  }
  return "unknown";
}

double step_ns(const Step& step, const Cluster& cluster, const Fabric& fabric) {
  double end = step.compute_ns;
  if (cluster.hosts == 1) {
    return std::max(end, in_one_host_ns(step, cluster, fabric));
  }
  for (const double done : simulate(cluster, fabric, step.buckets)) {
    end = std::max(end, done);
  }
  return end;
}

Forecast forecast(const Step& step, const Cluster& cluster, const Fabric& fabric) {
  Forecast result{.cluster = cluster, .compute_ns = step.compute_ns, .step_ns = step_ns(step, cluster, fabric)};
  result.efficiency = result.step_ns > 0 ? result.compute_ns / result.step_ns : 1;
  result.without_bandwidth_ns = result.without_messages_ns = result.without_processor_ns = result.step_ns;
  if (result.exposed_ns() <= kWorthNaming * result.step_ns) {
    return result;
  }
  Fabric other = fabric;
  other.link_gbit = kEndlessGbit;
  result.without_bandwidth_ns = step_ns(step, cluster, other);
  other = fabric;
  other.latency_us = other.overhead_us = other.gap_us = other.memory_us = 0;
  result.without_messages_ns = step_ns(step, cluster, other);
  other = fabric;
  other.cpu_ns_per_byte = other.reduce_ns_per_byte = other.memory_ns_per_byte = 0;
  result.without_processor_ns = step_ns(step, cluster, other);
  result.bound = std::min({std::pair(result.without_bandwidth_ns, Bound::bandwidth),
                           std::pair(result.without_messages_ns, Bound::messages),
                           std::pair(result.without_processor_ns, Bound::processor)})
                     .second;
  return result;
}

}  // namespace ronde::plan
