// What each rank sends, and what it must then have.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/measuring/verification/pattern.h"
#include "cli/measuring/workload/options.h"

namespace ronde::cli {

/// First element and number of elements of `rank`'s share where `elements` are cut for `ranks` ranks: as equal as can
/// be, the first ones one more.
std::pair<std::uint64_t, std::uint64_t> share_of(std::uint64_t elements, int rank, int ranks);

struct Expectation {
  Expectation(const BenchOptions& options, int rank, int size);

  /// The first wrong element, in a sentence; empty if there is none. `bytes`: of one rank's input. Parts that come from
  /// several ranks lie one after the other.
  std::string check(const void* data, std::uint64_t bytes, std::uint64_t call) const;

  ronde_dtype dtype;
  Pattern input;
  std::vector<Pattern> results;  ///< of the parts in their order; none where there is nothing to check
  bool is_share = false;         ///< each part is this rank's share of the pattern, not all of it
  int rank;
  int size;
};

}  // namespace ronde::cli
