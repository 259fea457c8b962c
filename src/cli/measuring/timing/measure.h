// The loop that times a contestant: the same for every engine.
#pragma once

#include <functional>
#include <string>

#include "cli/measuring/report/report.h"
#include "cli/measuring/timing/contestant.h"
#include "cli/measuring/timing/start_line.h"
#include "cli/measuring/workload/options.h"

namespace ronde::cli {

/// What rank 0 tells while it goes on; other ranks call neither.
struct SweepEvents {
  /// Once, when all ranks have come.
  std::function<void(int ranks)> begin;
  /// A size, or the set, is done.
  std::function<void(int ranks, const Measurement& measurement)> measured;
  /// `done` of `calls` calls of this size are; called about as often as a display can show. May be empty.
  std::function<void(std::uint64_t bytes, std::uint64_t done, std::uint64_t calls)> progress;
};

/// Measures and verifies every result. Returns why it could not, as a sentence; empty on success. Collective.
///
/// Before each call the input is written anew. A call's time is the longest of the ranks' times, each from the start
/// line (start_line.h) to the return of its own call. Requires: checked options, a line of the contestant's ranks.
std::string measure(const BenchOptions& options, Contestant& contestant, StartLine line, const SweepEvents& events);

}  // namespace ronde::cli
