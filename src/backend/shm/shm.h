// The backend `shm`: our own algorithms over the memory that the ranks of a host share.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "collectives/tuning/table.h"
#include "transport/arena/arena.h"

namespace ronde::backend {

/// For the group of all ranks of the host, group index = rank in the arena. The arena must outlive the backend and its
/// operations, and this must be the only backend over it. Used under one lock. `table`: the first rank's is everyone's.
std::unique_ptr<Backend> make_shm_backend(transport::HostArena& arena,
                                          const collectives::Table& table = collectives::Table::built_in());

}  // namespace ronde::backend
