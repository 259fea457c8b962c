// What the Python of PATH can do.
#pragma once

#include "doctor/finding.h"

namespace ronde::doctor {

/// Fills in the Python's version and packages, and adds what was found: that there is one, which frameworks it has, and
/// whether Ronde can be imported. Waits for it up to half a minute.
void add_python(HostReport& report);

}  // namespace ronde::doctor
