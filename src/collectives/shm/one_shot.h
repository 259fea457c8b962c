// One-shot all-reduce: everybody publishes everything and reduces everything. One wait.
//
//     copy in   gather my whole input into my slot                                                     publish
//     reduce    when all have published: my own memory and the others' slots, in rank order, to my output
//
// A rank moves (p + 3) N bytes, of which it fetches (p - 1) N from other cores' caches; two phases fetch only 2 (p-1)/p
// N but wait twice. So it is for small plans; and for two ranks, who fetch N either way, for all.
//
// What is larger than a chunk goes in several, one tick each, as a pipeline over the slots: chunk k + 1 and later may
// be copied in before k is reduced. Such an operation stores all flags of its ticks; one of a single tick stores
// `published` only, from which the rest follows (channel.h), so a small all-reduce writes one line per rank.
//
// In place is right: peers read my slot, never my memory, and the reduction reads each element before it writes it.
// Streaming: large and out of place, results go past the caches (stream_copy.h), block by block from a buffer that
// stays in the nearest one.
#pragma once

#include <memory>

#include "collectives/shm/channel.h"
#include "types/operation.h"
#include "types/plan.h"
#include "types/thresholds.h"

namespace ronde::collectives {

/// Requires: size() > 1, plan.bytes() > 0; the same `thresholds` on every rank. `plan` must outlive the operation.
std::unique_ptr<Operation> one_shot_allreduce(HostChannel& channel, const Plan& plan, const Thresholds& thresholds);

}  // namespace ronde::collectives
