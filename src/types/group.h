// Group: an ordered set of ranks that act together (Horovod: process set).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ronde {

struct Group {
  std::int32_t id = 0;     ///< 0 is the group of all ranks
  std::vector<int> ranks;  ///< of the job, each once, in the group's order

  int size() const { return static_cast<int>(ranks.size()); }
  /// Position of a global rank in the group, -1 if it is not a member.
  int index_of(int rank) const {
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
  }
};

}  // namespace ronde
