#include "ofi/providers.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

namespace ronde::ofi {

namespace {

/// Networks made for this first, then TCP by libfabric's own way, then by way of its messages over connections.
constexpr std::array<std::string_view, 8> kPreferred = {"cxi",           "efa", "opx", "psm2",
                                                        "verbs;ofi_rxm", "net", "tcp", "tcp;ofi_rxm"};
constexpr std::array<std::string_view, 3> kTested = {"net", "tcp", "tcp;ofi_rxm"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kRefused = {{
    {"sockets", "libfabric has given it up, and transfers over it may not end"},
    {"shm",
     "it reaches ranks of its own host only, which share memory without libfabric, and a rank that is killed "
     "leaves files in /dev/shm"},
    {"sm2",
     "it reaches ranks of its own host only, which share memory without libfabric, and a rank that is killed "
     "leaves files in /dev/shm"},
}};

std::string_view name_of(const fi_info& info) {
  return info.fabric_attr != nullptr && info.fabric_attr->prov_name != nullptr ? info.fabric_attr->prov_name : "";
}

bool is_by_ip(const fi_info& info) { return info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6; }

/// Whether the offer is of the interface with this address; true of all that know no such addresses.
bool is_at(const fi_info& info, const std::string& address) {
  in_addr four{};
  in6_addr six{};
  if (info.addr_format == FI_SOCKADDR_IN && info.src_addr != nullptr) {
    const auto& own = *static_cast<const sockaddr_in*>(info.src_addr);
    return ::inet_pton(AF_INET, address.c_str(), &four) == 1 && own.sin_addr.s_addr == four.s_addr;
  }
  if (info.addr_format == FI_SOCKADDR_IN6 && info.src_addr != nullptr) {
    const auto& own = *static_cast<const sockaddr_in6*>(info.src_addr);
    return ::inet_pton(AF_INET6, address.c_str(), &six) == 1 && std::memcmp(&own.sin6_addr, &six, sizeof six) == 0;
  }
  return true;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

std::vector<std::string> names_in(const fi_info* all) {
  std::vector<std::string> names;
  for (const fi_info* each = all; each != nullptr; each = each->next) {
    if (std::ranges::find(names, name_of(*each)) == names.end()) {
      names.emplace_back(name_of(*each));
    }
  }
  return names;
}

/// Lower is better; -1: not to be taken.
int rank_of(std::string_view provider, const std::string& named) {
  if (!refusal(provider).empty()) {
    return -1;
  }
  return named.empty() ? preference(provider) : is_meant(named, provider) ? (provider == named ? 0 : 1) : -1;
}

}  // namespace

std::string_view refusal(std::string_view provider) {
  const auto found = std::ranges::find(kRefused, provider, &std::pair<std::string_view, std::string_view>::first);
  return found == kRefused.end() ? std::string_view() : found->second;
}

bool is_tested(std::string_view provider) { return std::ranges::find(kTested, provider) != kTested.end(); }

bool has_edges_only(std::string_view provider) { return provider == "net"; }

int preference(std::string_view provider) {
  const auto found = std::ranges::find(kPreferred, provider);
  return found == kPreferred.end() ? -1 : static_cast<int>(found - kPreferred.begin());
}

bool is_meant(std::string_view named, std::string_view provider) {
  return provider == named || (provider.starts_with(named) && provider.substr(named.size()) == ";ofi_rxm");
}

Infos wanted_of(const OfiLibrary& library) {
  Infos wanted = library.copy_of();
  if (wanted) {
    wanted->caps = FI_MSG | FI_TAGGED | FI_SEND | FI_RECV;
    wanted->mode = FI_CONTEXT | FI_CONTEXT2;
    wanted->ep_attr->type = FI_EP_RDM;
    wanted->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    wanted->domain_attr->threading = FI_THREAD_DOMAIN;
    // Whoever looks for news moves what is under way: no thread of the provider's takes a core.
    wanted->domain_attr->control_progress = wanted->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    wanted->domain_attr->resource_mgmt = FI_RM_ENABLED;
    wanted->tx_attr->msg_order = wanted->rx_attr->msg_order = FI_ORDER_SAS;
  }
  return wanted;
}

Result<std::vector<std::string>> provider_names(const OfiLibrary& library) {
  const Infos wanted = wanted_of(library);
  if (!wanted) {
    return Status::error(Code::out_of_memory, "no memory for what is asked of libfabric");
  }
  RONDE_ASSIGN_OR_RETURN(const Infos all, library.find(*wanted));
  return names_in(all.get());
}

Result<Infos> choose(const OfiLibrary& library, const std::string& named, const std::string& address) {
  if (const std::string_view why = refusal(named); !why.empty()) {
    return Status::error(Code::not_implemented,
                         "RONDE_OFI_PROVIDER is '" + named + "', which Ronde does not use: " + std::string(why));
  }
  const Infos wanted = wanted_of(library);
  if (!wanted) {
    return Status::error(Code::out_of_memory, "no memory for what is asked of libfabric");
  }
  RONDE_ASSIGN_OR_RETURN(const Infos all, library.find(*wanted));
  const fi_info* best = nullptr;
  bool is_elsewhere = false;
  for (const fi_info* each = all.get(); each != nullptr; each = each->next) {
    const int rank = rank_of(name_of(*each), named);
    if (rank < 0) {
      continue;
    }
    if (is_by_ip(*each) && !is_at(*each, address)) {
      is_elsewhere = true;
    } else if (best == nullptr || rank < rank_of(name_of(*best), named)) {
      best = each;
    }
  }
  if (best == nullptr) {
    const std::string which = named.empty() ? "no provider that Ronde takes" : "no provider '" + named + "'";
    return Status::error(Code::not_implemented,
                         library.name() + " has " + which +
                             (is_elsewhere ? " at this rank's address, " + address : "") +
                             "; with tagged messages it has " + listed(names_in(all.get())) +
                             (is_elsewhere ? ": set RONDE_ADDRESS to an address of this host"
                                           : ": set RONDE_OFI_PROVIDER to one of them, or RONDE_TRANSPORT=hosts"));
  }
  Infos chosen = library.copy_of(best);
  if (!chosen) {
    return Status::error(Code::out_of_memory, "no memory for what libfabric offers");
  }
  return chosen;
}

}  // namespace ronde::ofi
