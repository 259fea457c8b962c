#include "launch/addresses.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace ronde::launch {

using store::is_loopback;

namespace {

/// As inet_ntop writes an IPv4 address that came over an IPv6 socket; and without "%eth0".
std::string plain(std::string_view address) {
  if (address.starts_with("::ffff:") && address.find('.') != std::string_view::npos) {
    address.remove_prefix(7);
  }
  return std::string(address.substr(0, address.find('%')));
}

bool is_link_local(std::string_view address) { return address.starts_with("fe80:"); }

std::optional<ChosenAddress> by_interface(const AgentHello& hello, const std::string& interfaces) {
  const std::optional<store::InterfaceAddress> found = store::address_by_rule(hello.addresses, interfaces);
  if (!found) {
    return std::nullopt;
  }
  return ChosenAddress{found->address, "interface " + found->interface + ", by '" + interfaces + "'"};
}

/// The first address of the host that is not its loopback's.
ChosenAddress first_address(const AgentHello& hello) {
  for (const store::InterfaceAddress& each : hello.addresses) {
    if (!is_loopback(each.address)) {
      return {each.address, "the first of the host, on interface " + each.interface};
    }
  }
  return {"127.0.0.1", "the host has no other"};
}

ChosenAddress by_ssh(const AgentHello& hello, const std::vector<AgentHello>& hellos) {
  if (!hello.called.empty()) {
    const std::string address = plain(hello.called);
    return is_link_local(address) ? first_address(hello) : ChosenAddress{address, "ssh reached the host there"};
  }
  for (const AgentHello& other : hellos) {
    if (!other.caller.empty() && !is_link_local(other.caller) && !is_loopback(plain(other.caller))) {
      return {plain(other.caller), "ssh reached " + other.host + " from there"};
    }
  }
  if (std::all_of(hellos.begin(), hellos.end(), [&](const AgentHello& other) { return other.host == hello.host; })) {
    return {"127.0.0.1", "no other host takes part"};
  }
  return hello.named.empty() ? first_address(hello) : ChosenAddress{hello.named, "its name stands for that"};
}

}  // namespace

Result<std::vector<ChosenAddress>> choose_addresses(const std::vector<std::string>& names,
                                                    const std::vector<AgentHello>& hellos,
                                                    const std::string& interfaces) {
  std::vector<ChosenAddress> chosen;
  for (std::size_t host = 0; host < hellos.size(); ++host) {
    if (interfaces.empty()) {
      chosen.push_back(by_ssh(hellos[host], hellos));
      continue;
    }
    std::optional<ChosenAddress> found = by_interface(hellos[host], interfaces);
    if (!found) {
      return Status::error(Code::invalid_argument, "host " + names[host] + " has no network interface for '" +
                                                       interfaces + "'; it has " +
                                                       store::list_interfaces(hellos[host].addresses));
    }
    chosen.push_back(std::move(*found));
  }
  const auto loops = [](const ChosenAddress& each) { return is_loopback(each.address); };
  const auto bad = std::find_if(chosen.begin(), chosen.end(), loops);
  if (bad != chosen.end() && !std::all_of(chosen.begin(), chosen.end(), loops)) {
    return Status::error(Code::invalid_argument, "host " + names[static_cast<std::size_t>(bad - chosen.begin())] +
                                                     " would be reached at " + bad->address +
                                                     ", which other hosts cannot reach; name it as they do, or give " +
                                                     "--network-interface");
  }
  return chosen;
}

}  // namespace ronde::launch
