// Direct all-reduce: of tensors that lie in shared memory, in the tensors themselves. One tick, two waits.
//
//     publish t       my tensors hold my input
//     when all have published t: reduce my slice of everybody's tensors and store it to everybody's     reduced t
//     when all have reduced t: done, my tensors, or the others that I named for it, hold the result
//
// Nobody writes before all have published, and after the last `reduced` nobody touches a tensor any more. No staging
// slot is used; the tick counts for those of other operations, so all its flags are stored (channel.h). See
// shared_slice.h for the cutting.
#pragma once

#include <memory>

#include "collectives/shm/channel.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// Requires: size() > 1, plan.bytes() > 0, every member at its places.
std::unique_ptr<Operation> direct_allreduce(HostChannel& channel, const Plan& plan);

}  // namespace ronde::collectives
