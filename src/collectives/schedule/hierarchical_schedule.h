// Hierarchical: an all-reduce between hosts of several ranks each. Each slice (host_phases.h) is cut into a part for
// each host.
//
//     phase 0, in a host      every rank sends slice j to its host's rank of rail j, which reduces them
//     phase 1, between hosts  the ranks of a rail send each other the parts of the slice, and reduce what comes
//     phase 2, between hosts  they send each other the reduced parts
//     phase 3, in a host      every rail's rank sends its slice to the others of its host
//
// Of N bytes a host sends and receives 2 (H-1)/H N whatever the number of its ranks, and each of its rails drives its
// share. Which ranks' values are added first is not what it is in a flat schedule, so floating sums may differ from
// that one's in the last bit; each value is reduced in one place in a fixed order, so all ranks have the same bits.
//
// Partial sums lie in scratch memory: outputs are written only by what has come from ranks that have heard, through
// their hosts, from all (docs/architecture.md on replay). A rail's rank has so after its first phase 1, the others of a
// host after their first phase 3.
#pragma once

#include <memory>

#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// `bytes`: of the whole tensor, more than 0; `slice`: of a message at most, a multiple of 128; `rails`: from 1 to
/// layout.fewest(). List 0 goes from the inputs to the outputs, list 1 from the outputs to themselves. Combination 0 is
/// of the ranks of a host, 1 of the hosts' partial results. Requires: layout.is_hierarchy().
std::unique_ptr<Schedule> hierarchical_allreduce_schedule(int rank, const RankLayout& layout, std::size_t bytes,
                                                          std::size_t slice, std::size_t rails);

/// Bytes of a slice: `least` up to eight hosts, and of more as many as make the step short (balanced_slice.h).
std::size_t hierarchical_slice(std::size_t bytes, std::size_t rails, std::size_t hosts, std::size_t least);

}  // namespace ronde::collectives
