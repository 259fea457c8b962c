// SharedSlice: this rank's part of an all-reduce of tensors that lie in the heap at the same offsets on every rank.
//
// The tensors are cut into one slice a rank. Rank r loads its slice of every rank's tensors, reduces and stores the
// result to every rank's tensors. So a rank reads N bytes in all (N/p from each of p ranks) and writes N, the least
// that is possible: 2N, against (5 - 2/p) N where memory is private.
//
// Cuts lie on line boundaries in memory, so that no two ranks ever write one line. They are a pure function of offsets,
// sizes and p, hence the same on every rank; heap offsets of tensors are multiples of their element's size, hence so
// are the cuts. What is small enough for a line or two per rank is one rank's altogether.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/host/budget.h"
#include "reduce/reduce.h"
#include "transport/arena.h"

namespace ronde::collectives {

/// Bytes of the heap, at the same place in every rank's.
struct HeapExtent {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// What of `tensors` each of `ranks` ranks owns, in heap order of the list: the part of `rank`.
std::vector<HeapExtent> slice_of(const std::vector<HeapExtent>& tensors, int ranks, int rank);

class SharedSlice {
 public:
  /// `arena` must outlive it. Requires: supports(reduction), each extent of whole elements at a multiple of their size.
  SharedSlice(transport::HostArena& arena, const reduce::Reduction& reduction, const std::vector<HeapExtent>& tensors);

  /// Reduces as much as the budget allows; true once all is done. The stores are ordinary ones: a release store after
  /// them announces them. Requires: the memory of all ranks may be read and written.
  bool advance(Budget& budget);
  /// Begins again, for the next instance.
  void restart() { extent_ = at_ = 0; }

 private:
  const reduce::Reducer reducer_;
  std::vector<std::byte*> heaps_;
  std::vector<HeapExtent> mine_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::size_t extent_ = 0;  ///< of mine_
  std::size_t at_ = 0;      ///< bytes of it that are done
};

}  // namespace ronde::collectives
