// What XLA tells of the execution that a frame belongs to.
#pragma once

#include <cstdint>
#include <optional>

#include "xla_ffi.h"

namespace ronde::jax {

/// XLA's run id. None where its interface is too old to tell.
std::optional<std::int64_t> launch_of(const XLA_FFI_CallFrame& frame);

/// The number of the device, in this process. None as above.
std::optional<std::int64_t> device_of(const XLA_FFI_CallFrame& frame);

}  // namespace ronde::jax
