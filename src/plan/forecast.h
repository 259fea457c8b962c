// Forecast: how long a step takes on a cluster, how much of that it computes, and what the rest waits for.
#pragma once

#include <string_view>

#include "plan/cluster.h"
#include "plan/fabric.h"
#include "plan/step.h"

namespace ronde::plan {

/// What a step would be shorter without.
enum class Bound {
  compute,    ///< nothing else that is worth naming: less than a hundredth of the step is spent waiting
  bandwidth,  ///< the bytes that a host's link carries
  messages,   ///< what each message costs, whatever its size: latency, overhead, gap
  processor,  ///< what each byte costs a rank's processor: copies, checksums, sums
};
/// "compute", ...
std::string_view bound_name(Bound bound);

struct Forecast {
  Cluster cluster;
  double compute_ns = 0;  ///< of a rank
  double step_ns = 0;
  double efficiency = 0;  ///< compute_ns / step_ns
  /// The step if links carried any bytes, messages cost nothing, processors moved and added bytes for nothing.
  double without_bandwidth_ns = 0;
  double without_messages_ns = 0;
  double without_processor_ns = 0;
  Bound bound = Bound::compute;
  double exposed_ns() const { return step_ns - compute_ns; }
};

/// How long the step takes: until all is computed and all ranks have all buckets. Ranks of one host are taken to copy
/// and add through their memory, bucket after bucket, which nobody has validated.
double step_ns(const Step& step, const Cluster& cluster, const Fabric& fabric);

/// Of a step whose compute_ns is a rank's on this cluster.
Forecast forecast(const Step& step, const Cluster& cluster, const Fabric& fabric);

}  // namespace ronde::plan
