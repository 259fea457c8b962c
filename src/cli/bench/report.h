// What `ronde bench` prints: an aligned table, or one JSON object a line.
#pragma once

#include <cstdint>
#include <string>

#include "cli/bench/options.h"
#include "cli/bench/summary.h"

namespace ronde::cli {

/// All calls of one size.
struct Measurement {
  std::uint64_t bytes = 0;
  std::uint64_t calls = 0;
  Summary summary;
};

/// What was measured, and the columns' names: two lines, each with its end.
std::string table_head(const BenchOptions& options, int ranks);
/// One line, with its end.
std::string table_row(const BenchOptions& options, int ranks, const Measurement& measurement);
/// {"peer":"ronde","op":"allreduce",...} and the line's end.
std::string json_line(const BenchOptions& options, int ranks, const Measurement& measurement);

}  // namespace ronde::cli
