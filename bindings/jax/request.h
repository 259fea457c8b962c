// From a frame of XLA's to a request of Ronde's, and from its end to XLA's memory.
#pragma once

#include <ronde/ronde.h>

#include <cstdint>
#include <string>
#include <vector>

#include "attributes.h"
#include "call.h"
#include "xla_ffi.h"

namespace ronde::jax {

/// The memory of so many buffers. Throws std::invalid_argument for an element type that is not known.
std::vector<Span> spans_of(void* const* buffers, std::int64_t count);

/// Hands the request of the call in: `call->name`, on the frame's first `operands` operands, with results in its first
/// `results` results. Those of a call that is split are not looked at: its operands are copied and reduced in place.
/// Calls `on_done` with `call` at the end. Throws std::exception where the frame is none of ours.
ronde_status submit(const XLA_FFI_CallFrame& frame, const Attributes& attributes, std::int64_t operands,
                    std::int64_t results, ronde_done_fn on_done, Call* call);

/// Brings the results of a request that has succeeded to where XLA expects them. The text says what went wrong, if
/// anything.
std::string bring_results(const Call& call);

}  // namespace ronde::jax
