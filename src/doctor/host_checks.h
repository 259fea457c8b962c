// What can be seen on one host.
#pragma once

#include "doctor/finding.h"

namespace ronde::doctor {

/// Looks at this host: takes up to half a minute, most of it Python's. Starts a Python of PATH.
HostReport examine_host();

}  // namespace ronde::doctor
