// Merging the timelines of a job's ranks into one, on one clock.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"

namespace ronde::cli {

struct MergedTrace {
  std::string text;  ///< a Chrome trace: a JSON array, one event a line
  std::size_t ranks = 0;
  std::size_t events = 0;          ///< without those that give rows their names
  std::vector<std::string> notes;  ///< what a person should know: events dropped, a rank cut off in the middle
};

/// Of files that Ronde's timelines were written to, in any order. Each rank becomes a process, each of its rows a
/// thread. Times count from the earliest start; ranks of one boot of one machine are aligned by its monotonic clock,
/// hosts by what their ranks found when they compared clocks, or by the time of day if some did not. INVALID_ARGUMENT
/// naming the file if one cannot be read, is no timeline, or is of a rank that another is of.
Result<MergedTrace> merge_traces(const std::vector<std::string>& paths);

}  // namespace ronde::cli
