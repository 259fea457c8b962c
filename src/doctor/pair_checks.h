// What can be seen between hosts: whether the ranks of a job could connect, how long a message takes, how many bytes go
// through in a second, and how far clocks are apart.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/status.h"
#include "doctor/finding.h"
#include "store/store.h"

namespace ronde::doctor {

/// One process on each host, which know each other by the job's key.
struct PairPlan {
  store::Store& store;
  JobKey key;
  int rank = 0;
  int size = 1;
  std::string address;  ///< where this rank listens
};

/// Collective. Each pair in both directions, one pair at a time: a third of a second each where all is well, up to ten
/// seconds where packets vanish. What this rank has found, which is the lower one's of each pair.
Result<std::vector<PairReport>> examine_pairs(const PairPlan& plan);

/// The pure part: what the figures of a pair mean.
struct PairFigures {
  Nanoseconds one_way = 0;       ///< of 8 bytes, half a round trip
  double there = 0, back = 0;    ///< bytes a second
  Nanoseconds clocks_apart = 0;  ///< how much the other's time of day is ahead
  Nanoseconds uncertain_by = 0;  ///< of that
};
Finding judge(const PairFigures& figures);

}  // namespace ronde::doctor
