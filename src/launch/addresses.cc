#include "launch/addresses.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace ronde::launch {

namespace {

bool is_loopback(std::string_view address) { return address.starts_with("127.") || address == "::1"; }

/// As inet_ntop writes an IPv4 address that came over an IPv6 socket; and without "%eth0".
std::string plain(std::string_view address) {
  if (address.starts_with("::ffff:") && address.find('.') != std::string_view::npos) {
    address.remove_prefix(7);
  }
  return std::string(address.substr(0, address.find('%')));
}

bool is_link_local(std::string_view address) { return address.starts_with("fe80:"); }

/// NCCL_SOCKET_IFNAME's rules.
class InterfaceRule {
 public:
  explicit InterfaceRule(std::string_view text) {
    is_excluding_ = text.starts_with('^');
    text.remove_prefix(is_excluding_ ? 1 : 0);
    is_exact_ = text.starts_with('=');
    text.remove_prefix(is_exact_ ? 1 : 0);
    while (!text.empty()) {
      const std::size_t comma = text.find(',');
      names_.push_back(text.substr(0, comma));
      text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    }
  }

  /// The place of the first name that fits (of excluding rules 0 if none does); -1: not to be used.
  int place_of(std::string_view interface) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (is_exact_ ? interface == names_[i] : interface.starts_with(names_[i])) {
        return is_excluding_ ? -1 : static_cast<int>(i);
      }
    }
    return is_excluding_ ? 0 : -1;
  }

 private:
  bool is_excluding_ = false;
  bool is_exact_ = false;
  std::vector<std::string_view> names_;
};

std::optional<ChosenAddress> by_interface(const AgentHello& hello, const std::string& interfaces) {
  const InterfaceRule rule(interfaces);
  const InterfaceAddress* best = nullptr;
  int best_place = -1;
  for (const InterfaceAddress& each : hello.addresses) {
    const int place = rule.place_of(each.interface);
    const bool is_better = best == nullptr || place < best_place ||
                           (place == best_place && is_loopback(best->address) && !is_loopback(each.address));
    if (place >= 0 && is_better) {
      best = &each;
      best_place = place;
    }
  }
  if (best == nullptr) {
    return std::nullopt;
  }
  return ChosenAddress{best->address, "interface " + best->interface + ", by '" + interfaces + "'"};
}

/// The first address of the host that is not its loopback's.
ChosenAddress first_address(const AgentHello& hello) {
  for (const InterfaceAddress& each : hello.addresses) {
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
  return {"127.0.0.1", "no other host takes part"};
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
      std::string have;
      for (const InterfaceAddress& each : hellos[host].addresses) {
        have += (have.empty() ? "" : ", ") + each.interface + " (" + each.address + ")";
      }
      return Status::error(Code::invalid_argument, "host " + names[host] + " has no network interface for '" +
                                                       interfaces + "'; it has " + have);
    }
    chosen.push_back(std::move(*found));
  }
  const auto loops = [](const ChosenAddress& each) { return is_loopback(each.address); };
  const auto bad = std::find_if(chosen.begin(), chosen.end(), loops);
  if (bad != chosen.end() && !std::all_of(chosen.begin(), chosen.end(), loops)) {
    return Status::error(Code::invalid_argument,
                         "host " + names[static_cast<std::size_t>(bad - chosen.begin())] + " would be reached at " +
                             bad->address + ", which other hosts cannot reach; name it as they do, or give " +
                             "--network-interface");
  }
  return chosen;
}

}  // namespace ronde::launch
