// What `ronde bench --table` measures in a job of several hosts: with which limits of a row of RONDE_TABLE all-reduces
// take the least time between them.
#pragma once

#include <cstddef>
#include <string>

namespace ronde::cli {

/// The limits in force, which stay unless others are better.
struct HostLimits {
  std::size_t one_turn = 0;
  int large_turn = 0;
};

/// The row for this job, as RONDE_TABLE takes it. Collective, of ranks that are in no job at the moment: joins and
/// leaves the job once for each table that is tried, and changes RONDE_TABLE of this process. `hosts`: how many the job
/// has. `tell_progress`: this rank says on standard error how far it is. Returns why it could not, a sentence; empty on
/// success, with the row in `found` on every rank.
std::string probe_host_table(int hosts, const HostLimits& before, bool tell_progress, std::string* found);

}  // namespace ronde::cli
