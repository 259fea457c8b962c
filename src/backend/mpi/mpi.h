// The backend `mpi`: what MPI can do goes through the MPI that the site has tuned, the rest through the backend within.
// Ranks agree by Ronde's own connections, so all that agreement promises holds.
#pragma once

#include <memory>
#include <string_view>

#include "backend/backend.h"
#include "base/status.h"

namespace ronde::backend {

/// What a job of these ranks reduces and moves by. `within`: of the same ranks.
struct MpiBackend {
  std::unique_ptr<Backend> backend;
  int news_fd = -1;          ///< readable when an operation may have moved; the backend owns it
  std::string_view library;  ///< for people: version and file; lives as long as the process
};

/// Begins MPI if nobody has: before the process asks its launcher's PMIx for anything, which Open MPI 5 wants to be the
/// first to do. NOT_IMPLEMENTED or INVALID_ARGUMENT as MpiWorld::begin().
Status begin_mpi();

/// INVALID_ARGUMENT, NOT_IMPLEMENTED or PEER_LOST as MpiWorld::join(). Waits for all ranks.
Result<MpiBackend> make_mpi_backend(std::unique_ptr<Backend> within, int rank, int size);

/// MPI is begun, and any thread may call it (MPI_THREAD_MULTIPLE).
bool mpi_allows_threads();

/// At the process's exit, behind the last job: MPI's launchers take a process that does not end MPI for one that has
/// failed.
void end_mpi_at_exit();

}  // namespace ronde::backend
