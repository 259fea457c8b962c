// What each rank sends, and what it must then have.
#pragma once

#include <string>
#include <vector>

#include "cli/measuring/options.h"
#include "cli/measuring/pattern.h"

namespace ronde::cli {

struct Expectation {
  Expectation(const BenchOptions& options, int rank, int size);

  /// The first wrong element, in a sentence; empty if there is none. Of an allgather the ranks' parts lie one after the
  /// other, each of `bytes`.
  std::string check(const void* data, std::uint64_t bytes, std::uint64_t call) const;

  ronde_dtype dtype;
  Pattern input;
  std::vector<Pattern> results;
};

}  // namespace ronde::cli
