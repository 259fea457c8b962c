// Products of complex numbers: one implementation for all processor levels, rare and not made fast. Internal to
// src/reduce.
#pragma once

#include "reduce/kernel_table.h"
#include "types/tensor.h"

namespace ronde::reduce {

/// The kernel that multiplies and scales complex64 or complex128; null for other types.
Kernel complex_product_kernel(DType dtype);

}  // namespace ronde::reduce
