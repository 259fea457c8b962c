// This host's network interfaces, and which of their addresses a job's sockets use.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "store/tcp_address.h"

namespace ronde::store {

/// An address of one of the host's network interfaces.
struct InterfaceAddress {
  std::string interface;
  std::string address;  ///< numbers
};

/// Of those that are up, without link-local ones, which mean nothing without their interface.
std::vector<InterfaceAddress> interface_addresses();

/// Whether nobody on another host reaches it. `address`: numbers.
bool is_loopback(std::string_view address);

/// The first address that fits `rule`, which is in NCCL's syntax: "eth,ib" (names that begin so), "=eth0" (this name),
/// "^docker,lo" (none that begin so), "^=eth0" (not this name); of one name's rather one that is not a loopback's.
std::optional<InterfaceAddress> address_by_rule(const std::vector<InterfaceAddress>& addresses, std::string_view rule);

/// Names and addresses, for a sentence: "lo (127.0.0.1), eth0 (10.0.0.1)".
std::string list_interfaces(const std::vector<InterfaceAddress>& addresses);

/// The address, as numbers, from which this host would send to `where`. SYSTEM_ERROR if nothing leads there.
Result<std::string> address_towards(const HostAndPort& where);

/// An address of this host that others reach, where nothing says by which they do: the one that it has by its own
/// name, else the first that belongs to neither a loopback nor a bridge of containers (docker, virbr); 127.0.0.1 if
/// there is none.
std::string address_for_others(const std::string& own_name, const std::vector<InterfaceAddress>& addresses);

}  // namespace ronde::store
