// How many cores this process may use.
#pragma once

namespace ronde {

/// The cores that the affinity mask and the cgroup's quota leave to this process; at least a fraction above 0.
double available_cores();

}  // namespace ronde
