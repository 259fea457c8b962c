// Which oneCCL a host has, and whether `RONDE_BACKEND=oneccl` can use it.
#pragma once

#include "doctor/finding.h"

namespace ronde::doctor {

/// The library that a job would open.
void add_oneccl(HostReport& report);

}  // namespace ronde::doctor
