// SharedSlice: this rank's part of an all-reduce of tensors that lie in the ranks' heaps.
//
// The tensors are cut into one slice a rank. Rank r loads its slice of every rank's tensors, reduces and stores the
// result to every rank's tensors. So a rank reads N bytes in all (N/p from each of p ranks) and writes N, the least
// that is possible: 2N, against (5 - 2/p) N where memory is private.
//
// Cuts lie on line boundaries in memory, so that no two ranks ever write one line; a tensor lies alike within a line on
// all ranks (types/memory_place.h). They are a pure function of sizes, p and where in its line each tensor begins,
// hence the same on every rank; heap offsets of tensors are multiples of their element's size, hence so are the cuts.
// What is small enough for a line or two per rank is one rank's altogether.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/budget.h"
#include "reduce/reduce.h"
#include "transport/arena/arena.h"
#include "types/memory_place.h"

namespace ronde::collectives {

struct SharedTensor {
  MemoryPlaces places;  ///< not empty
  std::size_t bytes = 0;
};

/// Some bytes of one tensor.
struct Extent {
  std::size_t tensor = 0;  ///< index in the list
  std::size_t begin = 0;   ///< bytes of the tensor before it
  std::size_t bytes = 0;
};

/// What of `tensors` each of `ranks` ranks owns, in the order of the list: the part of `rank`.
std::vector<Extent> slice_of(const std::vector<SharedTensor>& tensors, int ranks, int rank);

class SharedSlice {
 public:
  /// `arena` must outlive it. Requires: supports(reduction), tensors of whole elements at multiples of their size.
  SharedSlice(transport::HostArena& arena, const reduce::Reduction& reduction,
              const std::vector<SharedTensor>& tensors);

  /// Reduces as much as the budget allows; true once all is done. The stores are ordinary ones: a release store after
  /// them announces them. Requires: the memory of all ranks may be read and written.
  bool advance(Budget& budget);
  /// Begins again, for the next instance.
  void restart() { extent_ = at_ = 0; }

 private:
  const reduce::Reducer reducer_;
  const std::size_t ranks_;
  const std::size_t most_;  ///< bytes of a tensor that are reduced at a time
  std::vector<Extent> mine_;
  struct Begin {
    const std::byte* input;
    std::byte* output;
  };
  std::vector<Begin> begins_;  ///< of each extent in each rank's heap: extent x rank
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::size_t extent_ = 0;  ///< of mine_
  std::size_t at_ = 0;      ///< bytes of it that are done
};

}  // namespace ronde::collectives
