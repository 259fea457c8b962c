// Ends of requests, brought from Ronde's engine thread to XLA.
//
// XLA goes on with its program in the thread that says that a call has ended: with matrix products, or with Python. The
// engine thread must do neither, so a thread of our own says it.
#pragma once

#include <functional>
#include <string>

#include "xla_ffi.h"

namespace ronde::jax {

/// How a call of XLA's has ended. `error` is empty on success.
struct Completion {
  const XLA_FFI_Api* api = nullptr;
  XLA_FFI_Future* future = nullptr;
  XLA_FFI_Error_Code code = XLA_FFI_Error_Code_ABORTED;
  std::string error;
};

/// Tells XLA, in this thread: it may do anything before this returns. Throws nothing.
void tell(const Completion& completion) noexcept;

/// Has this done, which may do anything but throw, in a thread of this process that lives from the first call on;
/// returns at once. Any thread. Where there is no memory or no thread for it, it is done here and now.
void later(std::function<void()> work) noexcept;

}  // namespace ronde::jax
