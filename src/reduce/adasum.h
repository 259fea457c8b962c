// Adasum's arithmetic. Two gradients that point the same way are averaged, two that have nothing to do with each other
// are added, and between that
//
//     a' = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
//
// (Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2021). Of p ranks neighbours are combined,
// 0 with 1, 2 with 3, ..., then the results likewise, until one is left: a tree. Where their number is odd the last one
// goes on to the next round as it is, so for a power of two it is the paper's tree.
//
// Everything in double whatever the tensor's type, products of a tensor's values summed in an order that its size and
// the number of ranks fix, one rounding at the end. A vector without length (all zeros) has nothing in common with any
// other: its factor is 1, not 0 / 0.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "types/tensor.h"

namespace ronde::reduce {

/// NOT_IMPLEMENTED for what is not float16, bfloat16, float32 or float64.
Status adasum_supports(DType dtype);

/// to[i] = scale * from[i]. Requires: adasum_supports(dtype).
void widen(DType dtype, const void* from, std::size_t count, double scale, double* to);
/// to[i] = scale * from[i], rounded once to the nearest even. Requires: adasum_supports(dtype).
void narrow(DType dtype, const double* from, std::size_t count, double scale, void* to);

/// Of two vectors a and b, or of a part of them.
struct Products {
  double ab = 0;
  double aa = 0;
  double bb = 0;
};

/// Adds those of another part.
void add(const Products& part, Products& sum);
/// Adds those of `count` further values.
void add_products(const double* a, const double* b, std::size_t count, Products& products);
/// Replaces a by its combination with b. `products`: of the whole vectors, of which these `count` values are a part.
void combine(const Products& products, const double* b, std::size_t count, double* a);

}  // namespace ronde::reduce
