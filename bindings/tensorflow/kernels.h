// What the operations do when they run, on the processor.
#pragma once

#include <string>

namespace ronde::tf {

/// Registers a kernel for each operation. Returns what went wrong, empty if nothing did.
std::string register_kernels();

}  // namespace ronde::tf
