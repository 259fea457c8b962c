// At which address the ranks of each host of a job can be reached. A pure function.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launch/agent_messages.h"

namespace ronde::launch {

struct ChosenAddress {
  std::string address;
  std::string reason;
};
/// The address at which the ranks of each host can be reached by the others': where ssh reached it, or, of the
/// launcher's own host, from where ssh came to another; without ssh the one that its name stands for, else its first.
/// `interfaces` overrides that, in NCCL's syntax: "eth,ib" (names
/// that begin so), "=eth0" (this name), "^docker,lo" (none that begin so), "^=eth0" (not this name); the first that
/// fits. INVALID_ARGUMENT naming the host that has none, or only a loopback address while there are other hosts.
Result<std::vector<ChosenAddress>> choose_addresses(const std::vector<std::string>& names,
                                                    const std::vector<AgentHello>& hellos,
                                                    const std::string& interfaces);

}  // namespace ronde::launch
