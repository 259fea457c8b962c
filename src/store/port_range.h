// RONDE_PORT_RANGE: at which ports this job's processes may listen, where a firewall lets only some through.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::store {

struct PortRange {
  std::uint16_t first = 1;
  std::uint16_t last = 65535;  ///< counts too

  std::uint32_t size() const { return static_cast<std::uint32_t>(last - first) + 1; }
};

/// Of "29600-29699". INVALID_ARGUMENT if it is no such text.
Result<PortRange> parse_port_range(std::string_view text);

/// A listening socket of `address` (numbers), at a free port of the range that RONDE_PORT_RANGE gives, from a random
/// one of it on; at one that the kernel chooses if that is not set. SYSTEM_ERROR if none is free.
Result<UniqueFd> listen_in_range(const std::string& address);

}  // namespace ronde::store
