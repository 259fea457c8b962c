// A sweep over sizes, as one rank of a job sees it.
#pragma once

#include <functional>
#include <string>

#include "cli/bench/options.h"
#include "cli/bench/report.h"

namespace ronde::cli {

/// What rank 0 tells while it goes on; other ranks call neither.
struct SweepEvents {
  /// Once, when all ranks have come.
  std::function<void(int ranks)> begin;
  /// A size is done.
  std::function<void(int ranks, const Measurement& measurement)> measured;
  /// `done` of `calls` calls of this size are; called about as often as a display can show. May be empty.
  std::function<void(std::uint64_t bytes, std::uint64_t done, std::uint64_t calls)> progress;
};

/// Joins the job, measures, verifies every result, leaves. Returns why it could not, as a sentence; empty on success.
/// Before each call the input is written anew. A call's time is the longest of the ranks' times, each from the start
/// line (start_line.h) to the return of its own call.
std::string run_sweep(const BenchOptions& options, const SweepEvents& events);

}  // namespace ronde::cli
