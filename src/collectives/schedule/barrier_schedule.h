// Barrier by dissemination (Hensgen, Finkel and Manber, "Two Algorithms for Barrier Synchronization", 1988): in stage k
// every rank tells the rank 2^k further on, once it has heard from the one 2^(k-1) behind it. After ceil(log2 p) stages
// each has heard, through others, from all.
#pragma once

#include <memory>

#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

std::unique_ptr<Schedule> barrier_schedule(int rank, int ranks);

}  // namespace ronde::collectives
