// What the Python of PATH can do.
#pragma once

#include "doctor/finding.h"

namespace ronde::doctor {

/// Fills in the Python's version and packages, and adds what was found: that there is one, which frameworks it has,
/// whether Ronde can be imported, and whether each framework works with it. Takes as long as the slowest framework
/// needs to be imported, some seconds, and 75 s at most.
void add_python(HostReport& report);

}  // namespace ronde::doctor
