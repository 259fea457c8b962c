#include "backend/mpi/mpi.h"

#include "backend/mpi/mpi_world.h"

namespace ronde::backend {

using mpi::MpiWorld;

Result<std::shared_ptr<CollectiveLibrary>> join_mpi(int rank, int size) {
  RONDE_ASSIGN_OR_RETURN(MpiWorld* const world, MpiWorld::join(rank, size));
  return std::shared_ptr<CollectiveLibrary>(world, [](CollectiveLibrary*) {});
}

Status begin_mpi() { return MpiWorld::begin(); }

bool mpi_allows_threads() { return MpiWorld::allows_threads(); }

void end_mpi_at_exit() { MpiWorld::end_at_exit(); }

}  // namespace ronde::backend
