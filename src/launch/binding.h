// Which cores a rank is bound to.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ronde::launch {

enum class Binding {
  none,  ///< the rank runs where the kernel puts it
  core,  ///< on its equal share of the host's cores, on one core where there are more ranks than cores
  numa,  ///< on the cores of one NUMA node; ranks are spread over the nodes evenly, neighbours together
};

/// By its name; INVALID_ARGUMENT with what was expected.
Result<Binding> parse_binding(const std::string& name);

/// The cores that ranks of this host may have, by NUMA node; threads of one physical core side by side.
using CoresByNode = std::vector<std::vector<int>>;

/// Those of the calling thread's mask, as /sys tells them; one node where it tells none. `root` stands in front of
/// every path that is read ("" for the machine, a folder for tests).
CoresByNode cores_by_node(const std::vector<int>& allowed, const std::string& root = "");

/// Of rank `local_rank` of `local_size` on this host; empty: not bound. Pure.
std::vector<int> cores_of_rank(Binding binding, const CoresByNode& nodes, int local_rank, int local_size);

}  // namespace ronde::launch
