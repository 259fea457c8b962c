// Barrier: one tick without data. Publish; done when all have published.
#pragma once

#include <memory>

#include "collectives/shm/channel.h"
#include "types/operation.h"

namespace ronde::collectives {

/// For a world of any size.
std::unique_ptr<Operation> flag_barrier(HostChannel& channel);

}  // namespace ronde::collectives
