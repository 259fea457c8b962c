// For tests: the small floating types once more, independent of half.h: in double arithmetic, from their definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ronde::reduce::reference {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  /// The code of infinity, or where there is none the largest of all, which is NaN.
  std::uint32_t overflow_code() const {
    return has_infinity ? ((1u << exponent_bits) - 1) << mantissa_bits : sign_bit() - 1;
  }
  /// What numbers too large become.
  std::uint32_t largest_code() const { return has_infinity ? overflow_code() : overflow_code() - 1; }
};

inline constexpr Format kFloat16{5, 10, true};
inline constexpr Format kBfloat16{8, 7, true};
inline constexpr Format kFloat8E4M3{4, 3, false};
inline constexpr Format kFloat8E5M2{5, 2, true};

inline bool is_nan(Format format, std::uint32_t code) {
  const std::uint32_t magnitude = code & (format.sign_bit() - 1);
  return format.has_infinity ? magnitude > format.overflow_code() : magnitude == format.overflow_code();
}

/// (-1)^sign * 1.mantissa * 2^(exponent - bias), or 0.mantissa * 2^(1 - bias) for exponent 0.
inline double decode(Format format, std::uint32_t code) {
  const double sign = code & format.sign_bit() ? -1 : 1;
  const std::uint32_t magnitude = code & (format.sign_bit() - 1);
  if (is_nan(format, code)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (magnitude == format.overflow_code()) {
    return sign * std::numeric_limits<double>::infinity();
  }
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const double fraction = std::ldexp(magnitude & ((1u << format.mantissa_bits) - 1), -format.mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - format.bias())
                       : sign * std::ldexp(1 + fraction, exponent - format.bias());
}

/// The nearest code, the even one of two. Requires: value is no NaN.
inline std::uint32_t encode(Format format, double value) {
  const std::uint32_t sign = std::signbit(value) ? format.sign_bit() : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) {
    return sign | format.largest_code();
  }
  const int smallest_exponent = 1 - format.bias();
  const int exponent = magnitude == 0 ? smallest_exponent : std::max(std::ilogb(magnitude), smallest_exponent);
  // In steps of the last mantissa bit; the default rounding mode is to nearest even.
  const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // A normal number has 2^mantissa_bits steps below it that its exponent field stands for.
  const double code = steps + std::ldexp(exponent - smallest_exponent, format.mantissa_bits);
  return sign | static_cast<std::uint32_t>(std::min<double>(code, format.largest_code()));
}

}  // namespace ronde::reduce::reference
