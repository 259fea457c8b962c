// Simulation: when the buckets of a step are averaged on all ranks of a cluster of several hosts, with the very
// schedules that ranks carry out (collectives/schedule/allreduce_way.h), over links that cost what a fabric says.
//
// What is modelled. A rank has one thread that sends, receives and adds, and does what ScheduleRun does: of the oldest
// bucket first, messages that may go, then those that have come, stage by stage. The ranks of a host share its link,
// which has a queue each way. Messages in a host go through memory. What is not: switches between hosts that carry less
// than all links together, lost packets, processors that computing takes from communication, ranks that are late.
//
// Many hosts. All hosts do the same at the same time, each towards the others at the same distances. So one host stands
// for all ("folded"): what comes in from others comes in the rhythm in which it sends to them. Only then are messages
// of one stage counted together, in about kBatches batches. Chains between two hosts are not symmetric, and small
// clusters are simulated whole.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/cluster.h"
#include "plan/fabric.h"
#include "plan/step.h"

namespace ronde::plan {

enum class Extent {
  chosen,  ///< all hosts up to kWholeHosts, else one for all
  whole,   ///< every rank of every host
  folded,  ///< one host for all; requires three hosts or more
};

inline constexpr int kWholeHosts = 8;
inline constexpr std::size_t kBatches = 32;

/// By bucket: from the step's begin until all ranks have it. Requires: hosts > 1; check(fabric). float32, averaged.
std::vector<double> simulate(const Cluster& cluster, const Fabric& fabric, const std::vector<StepBucket>& buckets,
                             Extent extent = Extent::chosen);

}  // namespace ronde::plan
