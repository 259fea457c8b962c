// Multiplying: an all-reduce of what is small between many hosts, in the turns of turns.h.
//
//     stage 0, in a host         every rank sends its values to the first rank of its host, which reduces them
//     fold, where there is one   the first ranks of hosts beyond the core send what they have to hosts of it
//     a stage for each turn      the first ranks of a turn's hosts send each other what they have, and reduce that
//     the result, back           to the hosts beyond the core, and in the hosts of the core
//     in the folded hosts        to their other ranks
//
// Each sends its partial result whole, so the bytes are those of recursive doubling: for what is larger the two phases
// of hierarchical_schedule.h and two_phase_schedule.h send less. All hosts of a turn reduce the same values in the same
// order, by rank, and so all ranks have the same bits.
//
// What a rank has before each turn is kept in scratch memory of its own until the schedule is over: a rank knows that
// others have sent what it needs, and not that they have had what it has sent.
#pragma once

#include <memory>

#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/turns.h"

namespace ronde::collectives {

/// `bytes`: of the whole tensor, more than 0, which go in one message; `turns`: of layout.hosts() hosts. List 0 goes
/// from the inputs to the outputs, list 1 from the outputs to themselves. Combination 0 is of the ranks of a host, 1 of
/// a host's and a folded host's partial results, 2 + k of those of turn k. Requires: layout.hosts() > 1.
std::unique_ptr<Schedule> multiplying_allreduce_schedule(int rank, const RankLayout& layout, std::size_t bytes,
                                                         Turns turns);

}  // namespace ronde::collectives
