// Which hosts a job is to run on, as people and batch systems write it. Pure functions, and a reader of files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ronde::launch {

inline constexpr int kMaxHosts = 1024;

struct HostSlots {
  std::string name;  ///< as ssh is given it: a host's name or address, or user@host
  int slots = 1;     ///< how many ranks it takes

  bool operator==(const HostSlots&) const = default;
};

/// "node1:4,node2:4", "node[01-03,7]:2"; a host without slots takes one. An IPv6 address with slots stands in square
/// brackets: "[fd00::1]:4". A host that comes again gets more slots. INVALID_ARGUMENT with what was expected.
Result<std::vector<HostSlots>> parse_hosts(std::string_view text);

/// The contents of a host file, a host a line; what follows '#' does not count. Of a line the first word is the host:
///   node1 slots=4       Open MPI (slots= and max_slots=; max_slots alone does not count)
///   node1:4             MPICH and Intel MPI
///   node1 / node1       PBS ($PBS_NODEFILE) and LSF ($LSB_DJOB_HOSTFILE): once for each slot
///   node[1-3]:4         as Slurm writes lists
/// or JSON: {"node1": 4, "node2": 4} or [{"host": "node1", "slots": 4}, ...]. `where` stands for the file in errors.
Result<std::vector<HostSlots>> parse_host_file(std::string_view contents, std::string_view where);
Result<std::vector<HostSlots>> read_host_file(const std::string& path);

/// "node[01-03,7],login" without slots: node01 node02 node03 node7 login.
Result<std::vector<std::string>> expand_host_names(std::string_view list);

/// The first hosts that take `ranks` ranks, with as many slots as are used; 0: all slots. INVALID_ARGUMENT if there are
/// too few.
Result<std::vector<HostSlots>> fill_hosts(const std::vector<HostSlots>& hosts, int ranks);

}  // namespace ronde::launch
