// Which boot of which host this is.
#pragma once

#include <string>

namespace ronde {

/// The random number that the kernel gave itself when it started, as text: the same in all containers of a host. Empty
/// if it cannot be read.
std::string boot_id();

}  // namespace ronde
