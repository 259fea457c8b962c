// Allgather: every rank stages its rows chunk by chunk, and copies out everybody else's.
//
// Rank r's stream is its rows of member 0, then of member 1, ...; tick t carries chunk t of every stream, and there are
// as many ticks as the longest stream has chunks. Rows differ per rank, so a stream may end early or be empty.
//
//     stage    if my stream has a chunk t: when my input slot is free, gather it, publish t, and copy it to its place
//              in my own output; past its end I publish all ticks that are left at once
//     collect  for each peer, when it has published t: scatter its chunk t, if it has one; then reduced t
//
// Result slots are not used. Every rank knows everybody's rows from the plan, so nobody sends a size.
#pragma once

#include <memory>

#include "collectives/shm/channel.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// All members. Member m's output holds rows[m][0] rows of rank 0, then those of rank 1, ... An input may lie in its
/// place in the output. Requires: size() > 1, rows[m].size() == size() and rows[m][rank()] is the input's extent.
std::unique_ptr<Operation> staged_allgather(HostChannel& channel, const Plan& plan);

}  // namespace ronde::collectives
