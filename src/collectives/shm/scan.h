// Scan: prefix reductions over the ranks, in their order (MPI_Scan and MPI_Exscan of the MPI standard). Inclusive: rank
// r gets the reduction of the inputs of ranks 0 to r. Exclusive: of ranks 0 to r - 1; rank 0 gets the reduction of no
// values, the neutral one (0 for sum, 1 for product), where MPI leaves what was there.
//
// Every rank but the last puts chunk t into its input slot and publishes t; rank r reads the slots of the ranks below
// it, when they have published t, and reduces them in rank order, with its own chunk last, straight into its output. So
// each value is rounded once, and a rank's result has the bits that an all-reduce of the ranks up to it would have. A
// chain, in which each rank adds to what the one before it hands on, would read (p-1) N in all where this reads p (p-1)
// / 2 N, but takes p turns for a small tensor, and rounds half precision p times.
//
// Result slots are not used. The last rank's input is nobody's: it publishes all ticks at once.
//
// Why the waits end: rank 0 waits for nobody but for free slots, and rank r for publications of ranks below it; a
// writer of tick t waits for readers of t - S, who need publications of t - S only, and those were before t.
#pragma once

#include <memory>

#include "collectives/shm/channel.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// All members; a member's output may be its input. Requires: size() > 1, supports(reduction).
std::unique_ptr<Operation> staged_scan(HostChannel& channel, const Plan& plan);
std::unique_ptr<Operation> staged_exscan(HostChannel& channel, const Plan& plan);

}  // namespace ronde::collectives
