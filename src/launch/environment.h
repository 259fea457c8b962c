// The environment that a rank starts with. A pure function: what is read from the machine is given.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ronde::launch {

/// A rank's place: in the job, on its host, and among the ranks of other hosts with the same local rank.
struct RankPlace {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  int cross_rank = 0, cross_size = 1;
};

/// What all ranks are told alike.
struct JobFacts {
  std::string store;  ///< RONDE_STORE
  std::string key;    ///< RONDE_KEY
  std::string host;   ///< this host's name
  /// MASTER_PORT: was free a moment ago. Nothing of Ronde listens there; it is for torch.distributed's own rendezvous.
  int master_port = 0;
  int threads = 1;                           ///< OMP_NUM_THREADS, the rank's share of the cores
  std::string master_address = "127.0.0.1";  ///< MASTER_ADDR
  std::string address;                       ///< RONDE_ADDRESS; empty: as it was
};

/// "NAME=value" strings, each name once: `inherited`, under the variables of Ronde, torch and Horovod, under `settings`
/// (the user's own). PYTHONUNBUFFERED and OMP_NUM_THREADS are set only where neither list has them.
std::vector<std::string> rank_environment(const std::vector<std::string>& inherited,
                                          const std::vector<std::string>& settings, const RankPlace& place,
                                          const JobFacts& facts);

/// Of a launcher of ranks other than ours: `inherited` without a place in another job of Ronde's, under `settings`.
std::vector<std::string> launcher_environment(const std::vector<std::string>& inherited,
                                              const std::vector<std::string>& settings);

/// INVALID_ARGUMENT unless it is NAME=value.
Status check_setting(const std::string& setting);

}  // namespace ronde::launch
