// What the backends can do whose ranks' processors compute on tensors in ordinary memory.
#pragma once

#include <string_view>

#include "base/status.h"
#include "types/plan.h"

namespace ronde::backend {

/// Ok, or NOT_IMPLEMENTED with a sentence that names the backend: memory of a device, a type or reduction that the
/// kernels (reduce/) do not have, or an operation for which the backend has no algorithm.
Status host_memory_supports(const Plan& plan, std::string_view backend, bool has_algorithm);

}  // namespace ronde::backend
