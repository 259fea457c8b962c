// HostBroadcast: a broadcast between hosts of several ranks each, which sends the tensor over the wire once to each
// other host, not once to each of its ranks. The tensor is cut into chunks, each chunk into as many slices as there are
// rails (host_phases.h has what these are), and each slice into a part for each host but the root's:
//
//     phase 0, in the root's host       the root sends slice j to the rank of rail j
//     phase 1, between hosts            that one sends each other host's rank of rail j its host's part
//     phase 2, between the other hosts  the ranks of rail j send each other their parts
//     phase 3, in a host                every rail's rank sends its slice to the others of its host, but the root
//
// Scatter and all-gather (two_phase_schedule.h), by hosts: of N bytes the root's host sends N, each other host receives
// N and sends (H-2)/(H-1) N. With two hosts phase 2 is empty.
#pragma once

#include <memory>

#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// `bytes`: of the whole tensor, more than 0; `slice`: of a message at most, a multiple of 128. List 0 goes from the
/// inputs to the outputs, list 1 from the outputs to themselves. Requires: layout.is_hierarchy().
std::unique_ptr<Schedule> host_broadcast_schedule(int rank, const RankLayout& layout, int root, std::size_t bytes,
                                                  std::size_t slice);

}  // namespace ronde::collectives
