// Tree: a broadcast of what is small to many ranks. In the turns of turns.h whoever has the tensor sends it on: of p
// ranks w have it before a turn of radix r, and rw after it, the root first (a k-nomial tree, with a k for each turn).
// An exchange, one turn of radix p, lets the root send p-1 messages one after the other.
#pragma once

#include <memory>

#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// `bytes`: of the whole tensor, more than 0, which go in one message; `turn`: of best_turns(). List 0 goes from the
/// inputs to the outputs, list 1 from the outputs to themselves. Requires: ranks > 1.
std::unique_ptr<Schedule> tree_broadcast_schedule(int rank, int ranks, int root, std::size_t bytes, std::size_t turn);

}  // namespace ronde::collectives
