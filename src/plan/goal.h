// GOAL: a step of all ranks as the text that LogGOPSim and ATLAHS simulate (github.com/spcl/LogGOPSim, txt2bin.re): for
// each rank what it computes, sends and receives, and what needs what.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/cluster.h"
#include "plan/fabric.h"
#include "plan/step.h"

namespace ronde::plan {

/// The most messages that are written: a text of some hundred megabytes.
inline constexpr double kMostGoalMessages = 4e6;

/// Times of computing and adding are in it, in nanoseconds; what messages cost is told to the simulator. Computing is
/// on cpu 1, all else on cpu 0. A message's tag is its bucket and stage. A message without bytes is said to have one,
/// since simulators take none for nothing to wait for. INVALID_ARGUMENT if it would be too long, or there is one host
/// only.
Result<std::string> goal_text(const Step& step, const Cluster& cluster, const Fabric& fabric);

}  // namespace ronde::plan
