// Which libfabric a host has, and over which of its providers `RONDE_TRANSPORT=ofi` can go.
#pragma once

#include <string>
#include <vector>

#include "doctor/finding.h"

namespace ronde::doctor {

/// The library that a job would open, in a process of its own: providers do things as they are found.
void add_ofi(HostReport& report);

/// For people: of providers by their names, in libfabric's order, which one is taken, which others can be asked for,
/// and which are not used and why.
std::string about_providers(const std::vector<std::string>& names);

}  // namespace ronde::doctor
