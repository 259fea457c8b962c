// Who wakes the others where all wait for all: the last to come.
//
// A rank that waits until every rank has stored a word cannot go on before the last has. If each that comes rang those
// who came before, p ranks that sleep would be woken p * (p - 1) times for one all-reduce, by a system call each, only
// to sleep again: with 32 ranks on two cores that took milliseconds. So only who finds the words of all others rings.
//
// Of ranks that come at one time at least one does: each stores its word, then comes a sequentially consistent fence,
// then it looks at the others' words. The fences have one order, and the rank whose fence is last in it sees all words.
#pragma once

#include <atomic>

#include "transport/arena/host_bells.h"

namespace ronde::collectives {

/// Call after storing this rank's word. `rank`, `size`: of those that the bells are of. `has_stored(peer)`: whether a
/// peer has stored its own, looked at anew. Requires: whoever sleeps until all have stored theirs has stored its own
/// before.
template <typename HasStored>
void wake_others_if_last(const transport::HostBells& bells, int rank, int size, const HasStored& has_stored) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (size == 2) {  // a look at the other's bell costs as much as one at its word, which may just have changed
    bells.ring_others_after_fence();
    return;
  }
  for (int peer = rank + 1; peer < size; ++peer) {
    if (!has_stored(peer)) {
      return;
    }
  }
  for (int peer = 0; peer < rank; ++peer) {
    if (!has_stored(peer)) {
      return;
    }
  }
  bells.ring_others_after_fence();
}

}  // namespace ronde::collectives
