// The floats of less than 32 bits as float32 and back, for who adds them elsewhere in the engine's arithmetic
// (reduce.h): exact when widening, rounded to nearest even when narrowing.
#pragma once

#include <cstddef>

#include "reduce/control_word.h"
#include "types/tensor.h"

namespace ronde::reduce {

/// float16, bfloat16, and those of 8 bits.
bool is_small_float(DType dtype);
/// `from` and `to` do not overlap, and need the alignment of their type only. Requires: is_small_float(dtype).
void widen(const DefaultArithmetic& arithmetic, DType dtype, const void* from, std::size_t count, float* to);
void narrow(const DefaultArithmetic& arithmetic, DType dtype, const float* from, std::size_t count, void* to);

}  // namespace ronde::reduce
