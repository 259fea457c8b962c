// One-shot all-reduce, for small plans: everybody publishes everything and reduces everything. One tick, one wait.
//
//     gather my whole input into my slot; publish
//     when all have published: output = reduce of my own memory and the others' slots, in rank order
//
// It moves p times the bytes of the two-phase algorithm but waits once instead of twice. In place is right: peers read
// my slot, never my memory, and the reduction reads each element before it writes it. The next operation may begin at
// once: its slot is another one (channel.h).
#pragma once

#include <memory>

#include "collectives/host/channel.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// Requires: size() > 1, 0 < plan.bytes() <= slot_bytes().
std::unique_ptr<Operation> one_shot_allreduce(HostChannel& channel, const Plan& plan);

}  // namespace ronde::collectives
