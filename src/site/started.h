// Who has started this process, if it was not `ronde run`, and what that says of the job. One file for each launcher;
// all are pure functions of the environment.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "site/variables.h"

namespace ronde::site {

struct Started {
  enum class By { srun, mpi, torchrun } by = By::srun;
  std::string name;           ///< for sentences: "Slurm's srun"
  std::string rank_variable;  ///< that says the rank
  std::string size_variable;  ///< that says the size
  int rank = 0;
  int size = 1;                   ///< rank < size
  std::optional<int> local_size;  ///< how many of the job's ranks are on this host, if that is said
  std::string first_host;         ///< by which others reach rank 0's host; empty: nothing says
  std::string
      job;  ///< the same for all ranks of a job, and for no other of this user's at the time; empty: nothing says
  bool has_pmi = false;   ///< PMI_FD speaks for this job
  bool has_pmix = false;  ///< a PMIx server does

  bool is_on_one_host() const { return local_size == size; }
};

/// Slurm's srun. A batch script's own process, which no srun has started, is none of it.
Result<std::optional<Started>> started_by_srun(const Variables& variables);
/// Open MPI's mpirun, and those of MPICH and its relatives (Hydra).
Result<std::optional<Started>> started_by_mpirun(const Variables& variables);
/// torchrun, and whatever sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as it does.
Result<std::optional<Started>> started_by_torchrun(const Variables& variables);

/// Whose word counts; nothing if nobody has started more than this process. INVALID_ARGUMENT if one of them is not to
/// be understood, or two contradict each other, of which neither can have started the other.
Result<std::optional<Started>> who_started(const Variables& variables);

/// INVALID_ARGUMENT if RONDE_RANK or RONDE_SIZE, set by hand, contradict a launcher's variables.
Status check_by_hand(const Variables& variables);

/// The first of "node[01-03,7],login" is "node01".
std::string first_of_node_list(const std::string& list);
/// The entry of this index of "2(x3),1", which is 2, 2, 2, 1.
std::optional<int> entry_of_task_list(const std::string& list, int index);

}  // namespace ronde::site
