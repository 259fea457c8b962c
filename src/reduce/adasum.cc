#include "reduce/adasum.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "reduce/control_word.h"
#include "reduce/elements.h"
#include "reduce/half.h"

namespace ronde::reduce {
namespace {

/// The float next to zero, with its last bit set if it is not the value itself: rounding that to fewer bits gives what
/// rounding the value would, which rounding twice to the nearest does not.
float to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) {
    return nearest;
  }
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  bits -= std::fabs(static_cast<double>(nearest)) > std::fabs(value) ? 1 : 0;
  return std::bit_cast<float>(bits | 1);
}

/// Products of fewer bits than this are noise, and dividing by them overflows.
const double kSmallest = std::sqrt(std::numeric_limits<double>::min());

double factor(double ab, double own) { return own < kSmallest ? 1.0 : 1.0 - ab / (2.0 * own); }

}  // namespace

Status adasum_supports(DType dtype) {
  switch (dtype) {
    case DType::float16:
    case DType::bfloat16:
    case DType::float32:
    case DType::float64: return {};
    default:
      return Status::error(Code::not_implemented, std::string(dtype_name(dtype)) +
                                                      " cannot be reduced by adasum, which takes float16, bfloat16, "
                                                      "float32 and float64");
  }
}

void widen(DType dtype, const void* from, std::size_t count, double scale, double* to) {
  const DefaultArithmetic arithmetic;
  const auto each = [&](auto value_at) {
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = scale * static_cast<double>(value_at(i));
    }
  };
  switch (dtype) {
    case DType::float16:
      return each([from](std::size_t i) { return widen_float16(load_element<std::uint16_t>(from, i)); });
    case DType::bfloat16:
      return each([from](std::size_t i) { return widen_bfloat16(load_element<std::uint16_t>(from, i)); });
    case DType::float32: return each([from](std::size_t i) { return load_element<float>(from, i); });
    default: return each([from](std::size_t i) { return load_element<double>(from, i); });
  }
}

void narrow(DType dtype, const double* from, std::size_t count, double scale, void* to) {
  const DefaultArithmetic arithmetic;
  const auto each = [&](auto rounded) {
    for (std::size_t i = 0; i < count; ++i) {
      store_element(rounded(scale * from[i]), to, i);
    }
  };
  switch (dtype) {
    case DType::float16: return each([](double value) { return narrow_float16(to_odd(value)); });
    case DType::bfloat16: return each([](double value) { return narrow_bfloat16(to_odd(value)); });
    case DType::float32: return each([](double value) { return static_cast<float>(value); });
    default: return each([](double value) { return value; });
  }
}

void add(const Products& part, Products& sum) {
  const DefaultArithmetic arithmetic;
  sum.ab += part.ab;
  sum.aa += part.aa;
  sum.bb += part.bb;
}

void add_products(const double* a, const double* b, std::size_t count, Products& products) {
  const DefaultArithmetic arithmetic;
  // Four sums of each, so that one addition need not wait for the other.
  constexpr std::size_t kLanes = 4;
  double ab[kLanes] = {};
  double aa[kLanes] = {};
  double bb[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      ab[lane] += a[i + lane] * b[i + lane];
      aa[lane] += a[i + lane] * a[i + lane];
      bb[lane] += b[i + lane] * b[i + lane];
    }
  }
  for (; i < count; ++i) {
    ab[0] += a[i] * b[i];
    aa[0] += a[i] * a[i];
    bb[0] += b[i] * b[i];
  }
  products.ab += (ab[0] + ab[1]) + (ab[2] + ab[3]);
  products.aa += (aa[0] + aa[1]) + (aa[2] + aa[3]);
  products.bb += (bb[0] + bb[1]) + (bb[2] + bb[3]);
}

void combine(const Products& products, const double* b, std::size_t count, double* a) {
  const DefaultArithmetic arithmetic;
  const double of_a = factor(products.ab, products.aa);
  const double of_b = factor(products.ab, products.bb);
  for (std::size_t i = 0; i < count; ++i) {
    a[i] = of_a * a[i] + of_b * b[i];
  }
}

}  // namespace ronde::reduce
