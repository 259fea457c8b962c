#include "reduce/widen.h"

#include <cstdint>

#include "reduce/half.h"
#include "reduce/kernel_table.h"
#include "reduce/levels.h"

namespace ronde::reduce {

bool is_small_float(DType dtype) {
  switch (dtype) {
    case DType::float16:
    case DType::bfloat16:
    case DType::float8_e4m3:
    case DType::float8_e5m2: return true;
    default: return false;
  }
}

void widen(const DefaultArithmetic&, DType dtype, const void* from, std::size_t count, float* to) {
  const KernelTable& table = *current_level().table;
  const auto* const bytes = static_cast<const std::uint8_t*>(from);
  if (dtype == DType::float16) {
    table.widen_float16(static_cast<const std::uint16_t*>(from), to, count);
  } else if (dtype == DType::bfloat16) {
    table.widen_bfloat16(static_cast<const std::uint16_t*>(from), to, count);
  } else {
    const bool is_e4m3 = dtype == DType::float8_e4m3;
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = is_e4m3 ? widen_float8_e4m3(bytes[i]) : widen_float8_e5m2(bytes[i]);
    }
  }
}

void narrow(const DefaultArithmetic&, DType dtype, const float* from, std::size_t count, void* to) {
  const KernelTable& table = *current_level().table;
  auto* const bytes = static_cast<std::uint8_t*>(to);
  if (dtype == DType::float16) {
    table.narrow_float16(from, static_cast<std::uint16_t*>(to), count);
  } else if (dtype == DType::bfloat16) {
    table.narrow_bfloat16(from, static_cast<std::uint16_t*>(to), count);
  } else {
    const bool is_e4m3 = dtype == DType::float8_e4m3;
    for (std::size_t i = 0; i < count; ++i) {
      bytes[i] = static_cast<std::uint8_t>(is_e4m3 ? narrow_float8_e4m3(from[i]) : narrow_float8_e5m2(from[i]));
    }
  }
}

}  // namespace ronde::reduce
