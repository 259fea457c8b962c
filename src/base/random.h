// Random bytes from the kernel.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace ronde {

/// Fills `bytes` with getrandom(): fit for keys. SYSTEM_ERROR if the kernel gives none. Any thread.
Status fill_random(std::span<std::byte> bytes);

}  // namespace ronde
