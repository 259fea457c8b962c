// Integers that are averaged or scaled: one implementation for all processor levels. Internal to src/reduce.
#pragma once

#include <limits>

#include "reduce/kernel_table.h"
#include "types/op.h"
#include "types/tensor.h"

namespace ronde::reduce {

/// Truncates towards zero; beyond the type's limits the limit, for NaN 0. T is an integer type of at most 64 bits.
template <typename T>
constexpr T truncate_saturating(double value) {
  constexpr T kMax = std::numeric_limits<T>::max();
  constexpr T kMin = std::numeric_limits<T>::min();
  // One above the largest T: a power of two, hence a double, which the largest 64-bit T is not.
  constexpr double kAboveMax = (static_cast<double>(kMax / 2) + 1) * 2;
  if (value != value) {
    return 0;
  }
  if (value >= kAboveMax) {
    return kMax;
  }
  if (value <= static_cast<double>(kMin)) {
    return kMin;
  }
  return static_cast<T>(value);
}

/// The kernel for an integer type and any operation on it, average included; null for other types and operations.
Kernel integer_scaled_kernel(DType dtype, ReduceOp op);

}  // namespace ronde::reduce
