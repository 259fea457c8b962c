// Exchange: every rank has a part for every rank. All-to-all hands the parts over, reduce-scatter adds up what comes.
// Gather, scatter and reduce are the same with empty parts: where all that is not empty goes to one rank (gather,
// reduce) or comes from one (scatter).
//
// part(i, j) is what rank i has for rank j: rows of member 0, then of member 1, ... Input slots are cut into p equal
// lengths, one for each destination (one in all where everything goes to the root), and tick t carries chunk t of
// every part. In tick t rank `me`
//
//     stages    once its input slot is free: gathers chunk t of part(me, j) into length j of the slot, for each j but
//     me; publishes t. An all-to-all copies part(me, me) to its place meanwhile. Past the end of all its parts the rank
//               publishes all ticks that are left at once;
//     collects  length `me` of each peer's slot, once that peer has published t. An all-to-all copies it to its place,
//               peer by peer. A reduce-scatter reduces those of all peers and its own chunk, in rank order, into its
//               output;
//     says      that it has reduced t, so that peers may use their slots again.
//
// Nothing is fetched that its reader does not need: (p-1)/p N of a reduce-scatter, against (p-1) N if every rank read
// everything. Result slots are not used. Every rank knows all sizes from the plan, so nobody sends one.
//
// Why the waits end: as allgather.h, whose ticks these are; a reader of tick t waits for publications of t only, and a
// writer for readers of t - S.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/shm/channel.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// All members. Member m's input has scattered rows for rank 0, then for rank 1, ..., its output this rank's own.
/// Requires: size() > 1, supports(reduction), rows[m] == scattered_rows(first extent, size()) (types/request.h).
std::unique_ptr<Operation> staged_reducescatter(HostChannel& channel, const Plan& plan);

/// All members. rows[m][i * size() + j] rows go from rank i to rank j: they lie in i's input in the order of j, and in
/// j's output in the order of i. Requires: size() > 1; input and output do not overlap.
std::unique_ptr<Operation> staged_alltoall(HostChannel& channel, const Plan& plan);

/// The same where rows[m] has rows for plan.root only (gather), or from plan.root only (scatter).
std::unique_ptr<Operation> staged_gather(HostChannel& channel, const Plan& plan);
std::unique_ptr<Operation> staged_scatter(HostChannel& channel, const Plan& plan);

/// All members, reduced into the outputs of plan.root; those of the others are not touched. A member's output may be
/// its input. Requires: size() > 1, supports(reduction).
std::unique_ptr<Operation> staged_reduce(HostChannel& channel, const Plan& plan);

}  // namespace ronde::collectives
