// The neutral value of a reduction: what changes no other value that it is reduced with.
#pragma once

#include <cstddef>
#include <span>

#include "types/op.h"
#include "types/tensor.h"

namespace ronde::reduce {

/// Fills whole elements: 0 for sum, average, adasum, or and xor; 1 for product; all bits for and; the largest value (an
/// infinity where the type has one) for min, the smallest for max.
void fill_neutral(DType dtype, ReduceOp op, std::span<std::byte> elements);

/// Fills whole elements with the reduction of no values: the neutral value, whose zero is a positive one.
void fill_empty(DType dtype, ReduceOp op, std::span<std::byte> elements);

}  // namespace ronde::reduce
