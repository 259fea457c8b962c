// Broadcast: the root stages its members chunk by chunk, the others copy them out.
//
// Tick t carries chunk t of the root's list. Root: when its input slot is free, gather, publish t. Others: when the
// root has published t, scatter, reduced t. The others publish all ticks at once at the beginning, since nobody reads
// their slots; result slots are not used. The root is done when all is staged: it does not wait for readers, the
// operation that reuses the slots does.
#pragma once

#include <memory>

#include "collectives/shm/channel.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// All members from plan.root, whose outputs are filled too. Requires: size() > 1.
std::unique_ptr<Operation> staged_broadcast(HostChannel& channel, const Plan& plan);

}  // namespace ronde::collectives
