#include "context.h"

#include <cstddef>

namespace ronde::jax {

namespace {

bool succeeds(const XLA_FFI_Api& api, XLA_FFI_Error* error) {
  if (error == nullptr) {
    return true;
  }
  XLA_FFI_Error_Destroy_Args destroyed{sizeof(destroyed), nullptr, error};
  api.error_destroy(&destroyed);
  return false;
}

}  // namespace

std::optional<std::int64_t> launch_of(const XLA_FFI_CallFrame& frame) {
  const XLA_FFI_Api& api = *frame.api;
  if (api.struct_size < offsetof(XLA_FFI_Api, run_id_get) + sizeof(api.run_id_get) || api.run_id_get == nullptr) {
    return std::nullopt;
  }
  XLA_FFI_RunId_Get_Args asked{sizeof(asked), nullptr, frame.ctx, 0};
  return succeeds(api, api.run_id_get(&asked)) ? std::optional<std::int64_t>(asked.run_id) : std::nullopt;
}

std::optional<std::int64_t> device_of(const XLA_FFI_CallFrame& frame) {
  const XLA_FFI_Api& api = *frame.api;
  if (api.struct_size < offsetof(XLA_FFI_Api, device_ordinal_get) + sizeof(api.device_ordinal_get) ||
      api.device_ordinal_get == nullptr) {
    return std::nullopt;
  }
  XLA_FFI_DeviceOrdinal_Get_Args asked{sizeof(asked), nullptr, frame.ctx, 0};
  return succeeds(api, api.device_ordinal_get(&asked)) ? std::optional<std::int64_t>(asked.device_ordinal)
                                                       : std::nullopt;
}

}  // namespace ronde::jax
