// out = truncate(post * reduced), reduced = op over r of truncate(pre * in[r]), a scale of exactly 1 leaving its value
// alone (a double has 53 bits: 2^53 + 1 times 1 would not be 2^53 + 1).
//
// An average is the sum in 64 bits, wrapping there, divided by the number of ranks. The other sums and products are
// taken in 64 bits too and cut to the type at the end: the low bits of a sum or product depend on the low bits of its
// terms only, so that is what wrapping in the type gives. Min, max and the bit operations need no more than the type.
//
// The arithmetic is exact or one rounding of a double, so all processor levels may share this code; it is rare and not
// made fast.
#include "reduce/integer_scaled.h"

#include <cstdint>
#include <type_traits>

#include "reduce/elements.h"

namespace ronde::reduce {
namespace {

/// 64 bits with the sign of T: what is compared and divided as T is. All smaller types fit a signed one.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>;

/// Unsigned arithmetic: signed overflow would be undefined.
template <typename W>
W combine(ReduceOp op, W a, W b) {
  const auto ua = static_cast<std::uint64_t>(a);
  const auto ub = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::product: return static_cast<W>(ua * ub);
    case ReduceOp::min: return a < b ? a : b;
    case ReduceOp::max: return a > b ? a : b;
    case ReduceOp::bit_and: return a & b;
    case ReduceOp::bit_or: return a | b;
    case ReduceOp::bit_xor: return a ^ b;
    default: return static_cast<W>(ua + ub);
  }
}

template <typename T>
T scaled(T value, double scale) {
  return scale == 1.0 ? value : truncate_saturating<T>(static_cast<double>(value) * scale);
}

template <typename T, ReduceOp kOp>
void integer_scaled(const Job& job) {
  for (std::size_t i = 0; i < job.count; ++i) {
    Wide<T> reduced = scaled(load_element<T>(job.inputs[0], i), job.prescale);
    for (std::size_t r = 1; r < job.ranks; ++r) {
      reduced = combine<Wide<T>>(kOp, reduced, scaled(load_element<T>(job.inputs[r], i), job.prescale));
    }
    if constexpr (kOp == ReduceOp::average) {
      reduced /= static_cast<Wide<T>>(job.ranks);
    }
    const T result = scaled(static_cast<T>(reduced), job.postscale);
    store_element(result, job.output, i);
    if (job.second_output != nullptr) {
      store_element(result, job.second_output, i);
    }
  }
}

template <typename T>
Kernel kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::average: return integer_scaled<T, ReduceOp::average>;
    case ReduceOp::sum: return integer_scaled<T, ReduceOp::sum>;
    case ReduceOp::min: return integer_scaled<T, ReduceOp::min>;
    case ReduceOp::max: return integer_scaled<T, ReduceOp::max>;
    case ReduceOp::product: return integer_scaled<T, ReduceOp::product>;
    case ReduceOp::bit_and: return integer_scaled<T, ReduceOp::bit_and>;
    case ReduceOp::bit_or: return integer_scaled<T, ReduceOp::bit_or>;
    case ReduceOp::bit_xor: return integer_scaled<T, ReduceOp::bit_xor>;
    case ReduceOp::adasum: break;
  }
  return nullptr;
}

}  // namespace

Kernel integer_scaled_kernel(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::uint8: return kernel_of<std::uint8_t>(op);
    case DType::int8: return kernel_of<std::int8_t>(op);
    case DType::uint16: return kernel_of<std::uint16_t>(op);
    case DType::int16: return kernel_of<std::int16_t>(op);
    case DType::int32: return kernel_of<std::int32_t>(op);
    case DType::int64: return kernel_of<std::int64_t>(op);
    case DType::uint32: return kernel_of<std::uint32_t>(op);
    case DType::uint64: return kernel_of<std::uint64_t>(op);
    default: return nullptr;
  }
}

}  // namespace ronde::reduce
