// What is told of many calls of one size, and how it is printed: a line of an aligned table, or one JSON object.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/measuring/workload/options.h"

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

/// All calls of one size, or of one set.
struct Measurement {
  std::uint64_t bytes = 0;    ///< of all tensors of a call
  std::uint64_t tensors = 1;  ///< of a call
  std::uint64_t calls = 0;
  Summary summary = {};
  double compute_us = 0;  ///< the computing of --overlap alone, the median
  double line_ns = 0;     ///< StartLine::line_ns() before the calls
};

/// What was measured, and the columns' names: two lines, each with its end.
std::string table_head(const BenchOptions& options, int ranks);
/// One line, with its end.
std::string table_row(const BenchOptions& options, int ranks, const Measurement& measurement);
/// {"peer":"ronde","op":"allreduce",...} and the line's end. `peer` names the engine.
std::string json_line(const std::string& peer, const BenchOptions& options, int ranks, const Measurement& measurement);

}  // namespace ronde::cli
