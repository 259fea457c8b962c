// What a call of XLA's says of itself beside its arrays, by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "xla_ffi.h"

namespace ronde::jax {

/// Attributes of one call, which must outlive this.
class Attributes {
 public:
  explicit Attributes(const XLA_FFI_Attrs& attrs) : attrs_(&attrs) {}

  /// A number given as numpy.int64. Throws std::invalid_argument, as do those below, if there is none of this type.
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  /// A number given as numpy.float64.
  [[nodiscard]] double real(std::string_view name) const;
  [[nodiscard]] std::string_view text(std::string_view name) const;
  /// An array of numpy.int64.
  [[nodiscard]] const XLA_FFI_Array& integers(std::string_view name) const;

 private:
  [[nodiscard]] const void* find(std::string_view name, XLA_FFI_AttrType type) const;
  [[nodiscard]] const void* scalar(std::string_view name, XLA_FFI_DataType dtype) const;

  const XLA_FFI_Attrs* attrs_;
};

}  // namespace ronde::jax
