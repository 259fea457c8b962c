#include "store/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ronde::store {

namespace {

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

/// Numbers; empty if it is neither IPv4 nor IPv6, or link-local.
std::string numbers_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* numbers = nullptr;
  if (address->sa_family == AF_INET) {
    numbers = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    numbers = IN6_IS_ADDR_LINKLOCAL(&six) ? nullptr : &six;
  }
  return numbers != nullptr && ::inet_ntop(address->sa_family, numbers, text.data(), text.size()) != nullptr
             ? text.data()
             : "";
}

bool is_for_containers(std::string_view interface) {
  return interface.starts_with("docker") || interface.starts_with("virbr");
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return found;
  }
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    if (std::string numbers = numbers_of(each->ifa_addr); !numbers.empty()) {
      found.push_back({each->ifa_name, std::move(numbers)});
    }
  }
  ::freeifaddrs(list);
  return found;
}

bool is_loopback(std::string_view address) { return address.starts_with("127.") || address == "::1"; }

std::optional<InterfaceAddress> address_by_rule(const std::vector<InterfaceAddress>& addresses, std::string_view text) {
  const InterfaceRule rule(text);
  std::optional<InterfaceAddress> best;
  int best_place = -1;
  for (const InterfaceAddress& each : addresses) {
    const int place = rule.place_of(each.interface);
    const bool is_better = !best || place < best_place ||
                           (place == best_place && is_loopback(best->address) && !is_loopback(each.address));
    if (place >= 0 && is_better) {
      best = each;
      best_place = place;
    }
  }
  return best;
}

std::string list_interfaces(const std::vector<InterfaceAddress>& addresses) {
  std::string list;
  for (const InterfaceAddress& each : addresses) {
    list += (list.empty() ? "" : ", ") + each.interface + " (" + each.address + ")";
  }
  return list;
}

Result<std::string> address_towards(const HostAndPort& where) {
  RONDE_ASSIGN_OR_RETURN(const std::vector<TcpAddress> addresses, resolve(where));
  int failure = 0;
  for (const TcpAddress& address : addresses) {
    // Of UDP, connecting sends nothing: the kernel only looks up the way.
    const UniqueFd socket(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    TcpAddress own;
    own.bytes = sizeof own.storage;
    if (socket.is_open() && ::connect(socket.get(), address.get(), address.bytes) == 0 &&
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.bytes) == 0) {
      if (std::string numbers = numbers_of(own.get()); !numbers.empty()) {
        return numbers;
      }
      failure = EADDRNOTAVAIL;
      continue;
    }
    failure = errno;
  }
  return Status::from_errno("looking up the way to " + where.host, failure);
}

std::string address_for_others(const std::string& own_name, const std::vector<InterfaceAddress>& addresses) {
  if (!own_name.empty()) {
    const Result<std::vector<TcpAddress>> named = resolve({own_name, 1});
    for (const TcpAddress& each : named ? named.value() : std::vector<TcpAddress>()) {
      const std::string numbers = numbers_of(each.get());
      const bool is_own = std::any_of(addresses.begin(), addresses.end(),
                                      [&](const InterfaceAddress& own) { return own.address == numbers; });
      if (is_own && !is_loopback(numbers)) {
        return numbers;
      }
    }
  }
  for (const bool of_containers : {false, true}) {
    for (const InterfaceAddress& each : addresses) {
      if (!is_loopback(each.address) && is_for_containers(each.interface) == of_containers) {
        return each.address;
      }
    }
  }
  return "127.0.0.1";
}

}  // namespace ronde::store
