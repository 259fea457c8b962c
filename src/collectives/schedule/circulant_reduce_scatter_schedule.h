// CirculantReduceScatter: a reduce-scatter, or a reduce, of much between many hosts of equally many ranks, of one each
// or of several. As host_reduce_scatter_schedule.h, but what goes between hosts takes some turns of few messages
// (circulant_turns.h) in place of one in which each host sends to each.
//
//     phase 0, in a host            every rank sends the others of its host what these carry; each reduces what it
//                                   carries, in the order of the host's ranks
//     phases 1 to T, between hosts  the ranks of one place on their hosts scatter partial sums and add what comes; the
//                                   last turn's become the rank's own part
//
// The bytes are those of host_reduce_scatter_schedule.h, in H-1 messages for each slice of a rank there and log2(H) at
// the least here; of a reduce the root receives one partial result in each turn, not one of each other host. Each value
// is reduced in one place in a fixed order, which goes by the turns; 16-bit sums are rounded at each message of a turn.
#pragma once

#include <memory>

#include "collectives/schedule/carried_parts.h"
#include "collectives/schedule/circulant_turns.h"
#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// Its lists are those of host_reduce_scatter_lists(), of which it requires the same. Combination 0 is of the ranks of
/// a host, 1 the last of the hosts' partial results, 2 of two of them before. `turns`: of as many hosts, each of which
/// has equally many ranks.
std::unique_ptr<Schedule> circulant_reduce_scatter_schedule(HostParts all, CirculantTurns turns);

}  // namespace ronde::collectives
