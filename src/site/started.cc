#include "site/started.h"

#include <vector>

namespace ronde::site {

namespace {

std::string words(const Started& who) {
  return who.rank_variable + "=" + std::to_string(who.rank) + " and " + who.size_variable + "=" +
         std::to_string(who.size);
}

Status contradiction(const std::string& one, const std::string& other) {
  return Status::error(Code::invalid_argument,
                       one + " contradict " + other + ": they must say the same; unset those that are not this job's");
}

bool is_job(const std::optional<Started>& started) { return started && started->size > 1; }

}  // namespace

Result<std::optional<Started>> who_started(const Variables& variables) {
  RONDE_ASSIGN_OR_RETURN(std::optional<Started> torchrun, started_by_torchrun(variables));
  // The agent of torchrun may be a rank of another launcher: its workers are not.
  std::optional<Started> found;
  if (!torchrun || !variables("TORCHELASTIC_RUN_ID")) {
    // The same holds for an mpirun inside of an allocation, whose agents srun has started.
    RONDE_ASSIGN_OR_RETURN(found, started_by_mpirun(variables));
    RONDE_ASSIGN_OR_RETURN(std::optional<Started> srun, started_by_srun(variables));
    const bool is_sruns = srun && found && srun->rank == found->rank && srun->size == found->size;
    if (!found || is_sruns) {
      found = std::move(srun);
    }
    if (is_job(found) && is_job(torchrun) && (found->rank != torchrun->rank || found->size != torchrun->size)) {
      return contradiction(words(*torchrun), words(*found) + " of " + found->name);
    }
  }
  if (!is_job(found)) {
    found = std::move(torchrun);
  }
  if (found && found->rank >= found->size) {
    return Status::error(Code::invalid_argument, words(*found) + " contradict each other: ranks count from 0");
  }
  return is_job(found) ? found : std::nullopt;
}

Status check_by_hand(const Variables& variables) {
  if (variables("RONDE_MASTER")) {
    return {};  // `ronde run` has set them, whatever has started that
  }
  RONDE_ASSIGN_OR_RETURN(const std::optional<int> rank, number_of(variables, "RONDE_RANK", 0));
  RONDE_ASSIGN_OR_RETURN(const std::optional<int> size, number_of(variables, "RONDE_SIZE", 1));
  RONDE_ASSIGN_OR_RETURN(const std::optional<Started> started, who_started(variables));
  if (size && started && (*size != started->size || rank.value_or(0) != started->rank)) {
    return contradiction("RONDE_RANK=" + std::to_string(rank.value_or(0)) + " and RONDE_SIZE=" + std::to_string(*size),
                         words(*started) + " of " + started->name);
  }
  return {};
}

}  // namespace ronde::site
