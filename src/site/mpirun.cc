// Open MPI's mpirun, whose ranks find a PMIx server, and Hydra, the launcher of MPICH, Intel MPI and MVAPICH, whose
// ranks have a socket at which a PMI-1 server listens. (srun --mpi=pmi2 sets PMI_RANK too; it says nothing else than
// srun does.)
#include "site/started.h"

namespace ronde::site {

namespace {

struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_size;
};

constexpr Names kOpenMpi = {"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kHydra = {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"};

}  // namespace

Result<std::optional<Started>> started_by_mpirun(const Variables& variables) {
  for (const Names& names : {kOpenMpi, kHydra}) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<int> rank, number_of(variables, names.rank, 0));
    RONDE_ASSIGN_OR_RETURN(const std::optional<int> size, number_of(variables, names.size, 1));
    if (!rank || !size) {
      continue;
    }
    Started started;
    started.by = Started::By::mpi;
    started.name = names.launcher;
    started.rank_variable = names.rank;
    started.size_variable = names.size;
    started.rank = *rank;
    started.size = *size;
    RONDE_ASSIGN_OR_RETURN(started.local_size, number_of(variables, names.local_size, 1));
    const bool is_open_mpi = names.rank == kOpenMpi.rank;
    started.has_pmix = is_open_mpi && variables("PMIX_NAMESPACE");
    started.has_pmi = !is_open_mpi && variables("PMI_FD");
    if (const auto id = variables(is_open_mpi ? "PMIX_NAMESPACE" : "PMI_JOBID")) {
      started.job = "mpi/" + *id;
    }
    return std::optional<Started>(std::move(started));
  }
  return std::optional<Started>();
}

}  // namespace ronde::site
