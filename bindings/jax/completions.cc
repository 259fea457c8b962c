#include "completions.h"

#include <functional>

#include "hand_over.h"

namespace ronde::jax {

void tell(const Completion& completion) noexcept {
  XLA_FFI_Error* refused = nullptr;
  if (completion.error.empty()) {
    XLA_FFI_Future_SetAvailable_Args args{sizeof(args), nullptr, completion.future};
    refused = completion.api->future_set_available(&args);
  } else {
    XLA_FFI_Error_Create_Args made{sizeof(made), nullptr, completion.error.c_str(), completion.code};
    XLA_FFI_Future_SetError_Args args{sizeof(args), nullptr, completion.future, completion.api->error_create(&made)};
    refused = completion.api->future_set_error(&args);
  }
  if (refused != nullptr) {
    XLA_FFI_Error_Destroy_Args args{sizeof(args), nullptr, refused};
    completion.api->error_destroy(&args);
  }
}

void tell_later(Completion&& completion) noexcept {
  bool is_taken = false;
  try {
    static auto* const thread = new HandOver("ronde-jax");
    std::function<void()> work = [completion] { tell(completion); };
    is_taken = thread->take(work);
  } catch (...) {
    is_taken = false;
  }
  if (!is_taken) {
    tell(completion);
  }
}

}  // namespace ronde::jax
