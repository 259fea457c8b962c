// Chain: an all-reduce between two hosts, of which the first has the lower ranks, that adds in the order of ranks: the
// bits are those of all ranks on one host. Slice by slice (host_phases.h):
//
//     phase 0, in the first host        every rank sends slice j to the rank of rail j, which reduces them in order
//     phase 1, between hosts            what it has reduced goes to the second host's rank of rail j
//              in the second host       every rank sends slice j to that rank, which reduces them after what has come
//     phase 2, between hosts            the result goes back
//              in the second host       and to the other ranks
//     phase 3, in the first host        every rail's rank sends the result to the other ranks
//
// Each host sends N bytes and receives N, as in a hierarchical schedule, of which the first host's are on their way
// before the second's: with many chunks both directions are in use.
//
// Outputs are written only by what has come from ranks that have heard from all. The second host's ranks of rails have
// so after their first phase 1, its others and the first host's of rails after their first phase 2, the others after
// their first phase 3.
#pragma once

#include <memory>

#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// Parameters and lists as of hierarchical_allreduce_schedule(). Combination 0 is of the first host's ranks, 1 of what
/// they were reduced to, which stands for a rank of the first host, and then the second's. Requires:
/// layout.is_hierarchy(), layout.is_in_order(), two hosts.
std::unique_ptr<Schedule> chain_allreduce_schedule(int rank, const RankLayout& layout, std::size_t bytes,
                                                   std::size_t slice, std::size_t rails);

/// Bytes of a message, so that there are enough of them for both directions to be in use. `most`: a multiple of 128.
std::size_t chain_slice(std::size_t bytes, std::size_t rails, std::size_t most);

}  // namespace ronde::collectives
