// Element-wise p-way reductions of host memory: out = post(sum or other over r of pre(in[r])), ranks in index order.
//
// The one arithmetic of the engine (docs/architecture.md 3.8), so that every path gives the same bits:
//  - float16, bfloat16 and the 8-bit floats are widened to fp32, reduced there, rounded once (nearest even) at the
//    store; float32 and float64 are reduced in their own type. No fused multiply-add.
//  - prescale multiplies each value as loaded: floating types in the accumulator's type; integers in double, truncated
//    towards zero to the type, per rank, before the reduction. Exactly 1.0 multiplies nothing.
//  - Sum of integers wraps in its type. Average of integers sums wide (int64 of the scaled values; wraps there),
//    divides by the number of ranks, truncating towards zero. Average of floats multiplies nothing: it divides the
//    accumulated sum by the number of ranks.
//  - postscale comes last: floats in the accumulator before the one rounding; integers in double, truncated.
//  - conversions from double to an integer type saturate at its limits, NaN becomes 0.
//  - min and max propagate NaN (any NaN in gives a NaN out; the first of them) and keep the first of +0 and -0. Where a
//    sum or product meets two NaNs, which of them comes out is not fixed.
//  - bool is a truth value, the byte 0 or 1: sum, max and bit_or are "any rank has it", product, min and bit_and "every
//    rank has it", bit_xor "an odd number of ranks have it". Neither averaged nor scaled.
//  - Complex numbers are two floats: scales are real, products (a + bi)(c + di) = (ac - bd) + (ad + bc)i as written,
//    infinities are not repaired. No order, hence no min and max.
//  - The 8-bit floats overflow as PyTorch converts: float8_e4m3, which has no infinity, saturates at 448, float8_e5m2
//    becomes infinite from 61440 on. NaN stays NaN.
//  - One rank's values without scales are copied.
//  - All of it under the default floating-point state, whatever the calling thread's is (control_word.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "reduce/control_word.h"
#include "types/op.h"
#include "types/tensor.h"

namespace ronde::reduce {

/// What to compute on `count` elements. Pointers need the alignment of their type only.
struct Reduction {
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;
};

/// Ok if the pair of type and operation can be reduced, else NOT_IMPLEMENTED with a sentence.
Status supports(const Reduction& reduction);

/// Reduces inputs[0], inputs[1], ... in this order into `output` and, if not null, into `second_output` too (the
/// same bits, stored while still in a register). Each of the two may be the same pointer as one of the inputs; no other
/// overlap. Requires: supports(reduction), 1 <= inputs.size().
void reduce(const Reduction& reduction, std::span<const void* const> inputs, std::size_t count, void* output,
            void* second_output = nullptr);

struct Job;

/// What the first input of a reduction is.
enum class First {
  value,    ///< a rank's, as the others are
  partial,  ///< what the values of ranks before those of the others were reduced to; it has been scaled
};

/// A reduction whose kernel has been looked up: the same as reduce(), for what is done again and again. A value; any
/// number of threads may use it.
class Reducer {
 public:
  /// For inputs of `ranks` ranks. `divisor`: what a floating average divides by where the inputs are not single ranks'
  /// values, but sums; 0: the ranks. Requires: supports(reduction), 1 <= ranks; no divisor and no partial for integers.
  Reducer(const Reduction& reduction, std::size_t ranks, std::size_t divisor = 0, First first = First::value);

  /// How many elements so many bytes are. Requires: whole ones. Without a division, which a small tensor would feel.
  std::size_t elements(std::size_t bytes) const { return bytes >> element_shift_; }
  /// `inputs`: one pointer per rank. The caller's thread is in the default floating-point state: looked at once for all
  /// that is reduced in one go, since a look costs as much as a small tensor.
  void operator()(const DefaultArithmetic&, const void* const* inputs, std::size_t count, void* output,
                  void* second_output = nullptr) const;
  /// Stores the same bits to every output; each may be the same pointer as one of the inputs. Requires: at least one.
  void to_all(const DefaultArithmetic& arithmetic, const void* const* inputs, std::size_t count,
              std::span<void* const> outputs) const;

 private:
  void (*kernel_)(const Job& job);  ///< null: one rank's values are copied
  std::size_t ranks_;
  std::size_t element_bytes_;
  int element_shift_;  ///< sizes of elements are powers of two
  double prescale_;
  double first_prescale_;
  double postscale_;
  std::size_t divisor_;
};

/// A processor level that the kernels were compiled for and that this processor can run.
/// "scalar" (the reference, always there), then "x86-64-v2", "x86-64-v3", "x86-64-v4", or "aarch64".
std::vector<std::string_view> levels();
/// The level in use: the best that runs here, or what RONDE_CPU_LEVEL names.
std::string_view level();
/// The same as reduce() on a given level, for tests and benchmarks. Requires: `level` is one of levels().
void reduce_at(std::string_view level, const Reduction& reduction, std::span<const void* const> inputs,
               std::size_t count, void* output, void* second_output = nullptr);

}  // namespace ronde::reduce
