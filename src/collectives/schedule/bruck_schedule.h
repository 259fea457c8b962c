// Bruck: an all-reduce of what is small between many hosts. The first ranks of hosts bring together what each host has,
// in the turns of turns.h, and each reduces all of it in the order of hosts.
//
//     stage 0, in a host     every rank sends its values to the first rank of its host, which reduces them
//     a stage for each turn  the first ranks send each other what they have by then
//     the last, in a host    the first rank sends the result to the others
//
// Each value is reduced in the same order as by an exchange (exchange_schedule.h) or by hierarchical_schedule.h, so the
// bits do not depend on which of them a size takes. The bytes are those of the exchange, (H-1) N; its H-1 messages are
// few here.
//
// What comes is kept in scratch memory: block j is that of the j-th host after this one. A block is never written
// again, so messages may be sent from there whenever there is room.
#pragma once

#include <memory>

#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// `bytes`: of the whole tensor, more than 0; `turn`: of best_turns(). List 0 goes from the inputs to the outputs, list
/// 1 from the outputs to themselves. If hosts have several ranks combination 0 is of the ranks of a host, and 1 of the
/// hosts' partial results; else there is one, of all ranks. Requires: layout.hosts() > 1.
std::unique_ptr<Schedule> bruck_allreduce_schedule(int rank, const RankLayout& layout, std::size_t bytes,
                                                   std::size_t turn);

}  // namespace ronde::collectives
