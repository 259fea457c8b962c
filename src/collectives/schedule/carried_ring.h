// CarriedRing: of hosts of equally many ranks each, the ranks of one place on their hosts, which carry each other's
// parts between the hosts (carried_parts.h), as a ring in the order of ranks. They go in turns (circulant_turns.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collectives/schedule/carried_parts.h"
#include "collectives/schedule/ring_pieces.h"

namespace ronde::collectives {

class CarriedRing {
 public:
  /// That of this rank. `carried` must outlive this. Requires: hosts of equally many ranks.
  CarriedRing(const HostParts& all, const CarriedParts& carried)
      : carried_(carried), local_(all.layout.local(all.rank)), ranks_(carried.parts(local_)) {
    own_ = static_cast<std::size_t>(std::find(ranks_.begin(), ranks_.end(), all.rank) - ranks_.begin());
  }

  int after(std::size_t distance) const { return ranks_[(own_ + distance) % ranks_.size()]; }
  int before(std::size_t distance) const { return ranks_[(own_ + ranks_.size() - distance) % ranks_.size()]; }

  /// Slices of this index of the parts of `count` ranks, from the one that is `ahead` on; in a list in which this slice
  /// of all of them begins at `base`.
  RingPieces parts(std::size_t index, std::size_t ahead, std::size_t count, int list, std::size_t base) const {
    return ring_pieces(ranks_.size(), own_, ahead, count, [&](std::size_t begin, std::size_t end) {
      const std::size_t from = base + bytes(index, 0, begin);
      return Piece{list, from, from + bytes(index, begin, end)};
    });
  }

 private:
  std::size_t bytes(std::size_t index, std::size_t begin, std::size_t end) const {
    std::size_t all = 0;
    for (; begin < end; ++begin) {
      all += carried_.slice(ranks_[begin], index).bytes();
    }
    return all;
  }

  const CarriedParts& carried_;
  const int local_;
  const std::vector<int>& ranks_;
  std::size_t own_;
};

}  // namespace ronde::collectives
