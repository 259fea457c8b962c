// MPI as a library of collectives: the one that the site has tuned, under whose launcher the process runs.
#pragma once

#include <memory>

#include "backend/staged/collective_library.h"
#include "base/status.h"

namespace ronde::backend {

/// Begins MPI if nobody has: before the process asks its launcher's PMIx for anything, which Open MPI 5 wants to be the
/// first to do. NOT_IMPLEMENTED or INVALID_ARGUMENT as MpiWorld::begin().
Status begin_mpi();

/// INVALID_ARGUMENT, NOT_IMPLEMENTED or PEER_LOST as MpiWorld::join(). Waits for all ranks.
Result<std::shared_ptr<CollectiveLibrary>> join_mpi(int rank, int size);

/// MPI is begun, and any thread may call it (MPI_THREAD_MULTIPLE).
bool mpi_allows_threads();

/// At the process's exit, behind the last job: MPI's launchers take a process that does not end MPI for one that has
/// failed.
void end_mpi_at_exit();

}  // namespace ronde::backend
