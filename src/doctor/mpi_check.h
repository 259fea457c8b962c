// Which MPIs a host has, and whether `--backend mpi` can use them.
#pragma once

#include <string>
#include <vector>

#include "doctor/finding.h"

namespace ronde::doctor {

/// Each library that is found, and the launcher that `ronde run --backend mpi` would take.
void add_mpi(HostReport& report);

/// Of these files each that is there, once. A file is opened in a process of its own: two MPIs in one do not work, and
/// one may end its process.
void add_mpi_libraries(const std::vector<std::string>& files, HostReport& report);

}  // namespace ronde::doctor
