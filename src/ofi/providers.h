// Providers: which of libfabric's ways to reach other hosts there are here, and which of them Ronde takes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ofi/library.h"

namespace ronde::ofi {

/// Empty, or why Ronde uses this provider never, whoever asks for it.
std::string_view refusal(std::string_view provider);

/// Whether Ronde's tests run over it.
bool is_tested(std::string_view provider);

/// The descriptor that it gives to wait on stays readable once it was: fi_trywait() does not make it unreadable again,
/// so only its becoming readable tells of news.
bool has_edges_only(std::string_view provider);

/// Its place among the providers that are taken without being asked for, best first; -1 for all others.
int preference(std::string_view provider);

/// What Ronde needs of a provider: reliable datagrams, tagged messages in order.
Infos wanted_of(const OfiLibrary& library);

/// What providers offer of that, in which domain, by name: each name once, in libfabric's order.
Result<std::vector<std::string>> provider_names(const OfiLibrary& library);

/// Whether the name in RONDE_OFI_PROVIDER means this provider: "tcp" also means "tcp;ofi_rxm", where libfabric puts
/// that between.
bool is_meant(std::string_view named, std::string_view provider);

/// The best offer of the provider `named`, or of any if that is empty, for a process that other hosts reach at this
/// address (numbers of IPv4 or IPv6). A copy. NOT_IMPLEMENTED with what was found, and why that is not taken.
Result<Infos> choose(const OfiLibrary& library, const std::string& named, const std::string& address);

}  // namespace ronde::ofi
