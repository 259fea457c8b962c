// torchrun and all that sets the same variables. Which host is rank 0's MASTER_ADDR says; at MASTER_PORT itself listens
// PyTorch's store, or will.
#include "site/started.h"

namespace ronde::site {

Result<std::optional<Started>> started_by_torchrun(const Variables& variables) {
  const std::optional<std::string> address = variables("MASTER_ADDR");
  const std::optional<std::string> port = variables("MASTER_PORT");
  if (!address || !port || !variables("RANK") || !variables("WORLD_SIZE")) {
    return std::optional<Started>();
  }
  RONDE_ASSIGN_OR_RETURN(const std::optional<int> rank, number_of(variables, "RANK", 0));
  RONDE_ASSIGN_OR_RETURN(const std::optional<int> size, number_of(variables, "WORLD_SIZE", 1));
  const std::optional<std::string> run = variables("TORCHELASTIC_RUN_ID");
  Started started;
  started.by = Started::By::torchrun;
  started.name = run ? "torchrun" : "whatever has set RANK and WORLD_SIZE";
  started.rank_variable = "RANK";
  started.size_variable = "WORLD_SIZE";
  started.rank = *rank;
  started.size = *size;
  RONDE_ASSIGN_OR_RETURN(started.local_size, number_of(variables, "LOCAL_WORLD_SIZE", 1));
  const bool is_loopback = *address == "localhost" || address->starts_with("127.") || *address == "::1";
  if (is_loopback) {
    started.local_size = started.size;  // nobody else reaches it there, whatever an agent of several counts as its own
  }
  started.first_host = *address;
  started.job = "torchrun/" + *port + "/" + run.value_or("") + "/" + std::to_string(started.size);
  return std::optional<Started>(std::move(started));
}

}  // namespace ronde::site
