// Two-phase all-reduce: reduce-scatter and allgather through the staging slots, in one pass over the data.
//
// The list of elements is cut into chunks of at most a slot, one tick each, and each chunk into p slices on line
// boundaries; rank r owns slice r. For each tick t:
//
//     copy in    gather the slices that others own into my input slot                            publish t
//     reduce     when all have published t: my own slice from my memory, the others' parts of it from their input
//                slots, in rank order, into my output and in the same pass into my result slot    reduced t
//     copy out   when all have reduced t: the others' slices from their result slots to my output copied t
//
// The own slice is never copied in or out, so a rank moves (5 - 2/p) N bytes, the least that private memory permits
// (docs/architecture.md, section 3). The three run as a pipeline over the slots: while chunk k is reduced, k+1 and
// later may be copied in and earlier ones copied out. Slot reuse: channel.h.
//
// In place is right (output is input, member by member). Output bytes of chunk t are written by reduce(t), only in my
// own slice, whose input bytes nobody reads but that very call, element by element; and by copy out(t), only in the
// others' slices, whose input bytes were copied to my slot by copy in(t), which came before reduce(t). Other ticks
// touch other chunks.
//
// Streaming. Out of place and large, outputs are stored past the caches (stream_copy.h). The kernel does not do that,
// so the own slice then goes to the result slot only and comes from there like everyone else's; the slot stays in
// cache.
//
// Nobody writes another rank's region or another rank's user memory: peers read my slots only.
#pragma once

#include <memory>

#include "collectives/shm/channel.h"
#include "types/operation.h"
#include "types/plan.h"
#include "types/thresholds.h"

namespace ronde::collectives {

/// Requires: size() > 1, plan.bytes() > 0; the same `thresholds` on every rank. `plan` must outlive the operation.
std::unique_ptr<Operation> two_phase_allreduce(HostChannel& channel, const Plan& plan, const Thresholds& thresholds);

}  // namespace ronde::collectives
