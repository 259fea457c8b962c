#include "attributes.h"

#include <stdexcept>
#include <string>

namespace ronde::jax {

namespace {

[[noreturn]] void lacking(std::string_view name) {
  throw std::invalid_argument("ronde.jax: the call has no attribute '" + std::string(name) +
                              "' of the expected type; package and libronde_jax.so must be of one release");
}

}  // namespace

const void* Attributes::find(std::string_view name, XLA_FFI_AttrType type) const {
  for (std::int64_t i = 0; i < attrs_->size; ++i) {
    if (std::string_view(attrs_->names[i]->ptr, attrs_->names[i]->len) == name && attrs_->types[i] == type) {
      return attrs_->attrs[i];
    }
  }
  lacking(name);
}

const void* Attributes::scalar(std::string_view name, XLA_FFI_DataType dtype) const {
  const auto* found = static_cast<const XLA_FFI_Scalar*>(find(name, XLA_FFI_AttrType_SCALAR));
  if (found->dtype != dtype) {
    lacking(name);
  }
  return found->value;
}

std::int64_t Attributes::integer(std::string_view name) const {
  return *static_cast<const std::int64_t*>(scalar(name, XLA_FFI_DataType_S64));
}

double Attributes::real(std::string_view name) const {
  return *static_cast<const double*>(scalar(name, XLA_FFI_DataType_F64));
}

std::string_view Attributes::text(std::string_view name) const {
  const auto* found = static_cast<const XLA_FFI_ByteSpan*>(find(name, XLA_FFI_AttrType_STRING));
  return {found->ptr, found->len};
}

const XLA_FFI_Array& Attributes::integers(std::string_view name) const {
  const auto* found = static_cast<const XLA_FFI_Array*>(find(name, XLA_FFI_AttrType_ARRAY));
  if (found->dtype != XLA_FFI_DataType_S64) {
    lacking(name);
  }
  return *found;
}

}  // namespace ronde::jax
