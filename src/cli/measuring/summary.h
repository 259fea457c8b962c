// What is told of many calls of one size.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/measuring/options.h"

namespace ronde::cli {

/// Microseconds.
struct Summary {
  double min_us = 0;
  double median_us = 0;
  double p99_us = 0;  ///< the smallest that 99 % of the calls do not exceed
};

/// Requires: at least one time. Seconds in, any order.
Summary summarize(std::vector<double> seconds);

/// Bytes per second of a call of `seconds` on `bytes` bytes a rank.
struct Bandwidth {
  double algorithm = 0;  ///< bytes / seconds
  /// What must pass a rank's link whatever the algorithm, hence comparable between operations and numbers of ranks:
  /// all-reduce sends and receives all but its own p-th twice, 2(p-1)/p; allgather receives the others' inputs, p-1;
  /// broadcast passes everything once.
  double bus = 0;
};
/// Zero where there are no bytes or no seconds.
Bandwidth bandwidth(BenchOp op, std::uint64_t bytes, int ranks, double seconds);

}  // namespace ronde::cli
