// Bruck's all-gather: ranks bring together what each has for all, something small, in the turns of turns.h, and then
// put it where it belongs. An exchange (exchange_schedule.h) sends as many bytes, in a message for each pair of ranks.
//
// Blocks are as long as the ranks' parts. Block j is that of the j-th rank after this one; it is kept in scratch memory
// and never written again, so messages may be sent from there whenever there is room. Outputs are written when all is
// there, so it does not matter which of them lie where inputs do.
#pragma once

#include <memory>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// `bytes`: of the ranks' parts, of which one is more than 0; `turn`: of best_turns(). List r is what rank r has: where
/// it is written, and of this rank's own also where it is read. Requires: more than one rank.
std::unique_ptr<Schedule> bruck_allgather_schedule(int rank, std::vector<std::size_t> bytes, std::size_t turn);

}  // namespace ronde::collectives
