// What a measurement prints: a line of an aligned table, or one JSON object.
#pragma once

#include <cstdint>
#include <string>

#include "cli/measuring/options.h"
#include "cli/measuring/summary.h"

namespace ronde::cli {

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
