// The small floating types <-> fp32, one value at a time: exact when widening, round to nearest even when narrowing.
//
// All of them are "sign, exponent, mantissa" with fewer bits than fp32, so two functions serve all formats:
//
//   normal numbers     fp32 counts its exponent from 127, the small format from its own bias. Subtracting the
//                      difference from the exponent field and dropping the low mantissa bits with rounding gives the
//                      small number; a carry out of the mantissa walks into the exponent, which is what it should do.
//   subnormal numbers  are whole multiples of 2^(1 - bias - mantissa bits). The fp32 mantissa, its hidden bit made
//                      visible, is shifted down to that multiple with the same rounding.
//   overflow           IEEE formats round to infinity. e4m3 (the "fn" kind of PyTorch and OCP) has no infinity: it
//                      saturates at 448, infinity too, as PyTorch converts (since 2.13; before, to NaN).
//   NaN                stays NaN, sign and upper payload bits kept, with the quiet bit set: what F16C and NEON do.
//
// bfloat16 is fp32's upper half. Widening it only shifts (a signalling NaN stays one), narrowing makes NaNs quiet.
//
// Everything here is always inlined: kernels.cc compiles these functions once per processor level, and a copy compiled
// for a newer processor must not become the program's only one.
#pragma once

#include <cstdint>

namespace ronde::reduce {

#define RONDE_ALWAYS_INLINE [[gnu::always_inline]] inline

/// A floating format of at most 16 bits.
struct SmallFormat {
  int mantissa_bits;
  int bias;
  bool has_infinity;  ///< false: the largest exponent holds numbers too, and only all ones is NaN
  int bits;
};

inline constexpr SmallFormat kFloat16Format{10, 15, true, 16};
inline constexpr SmallFormat kFloat8E4M3Format{3, 7, false, 8};
inline constexpr SmallFormat kFloat8E5M2Format{2, 15, true, 8};

inline constexpr std::uint32_t kFloat32Infinity = 0x7f800000;
inline constexpr std::uint32_t kFloat32QuietBit = 0x00400000;
inline constexpr std::uint32_t kFloat32MagnitudeMask = 0x7fffffff;

/// x / 2^n, rounded to nearest even. 1 <= n <= 31.
RONDE_ALWAYS_INLINE constexpr std::uint32_t shift_right_nearest_even(std::uint32_t x, int n) {
  return (x + ((1u << (n - 1)) - 1) + ((x >> n) & 1u)) >> n;
}

template <SmallFormat kFormat>
RONDE_ALWAYS_INLINE constexpr float widen_small(std::uint32_t code) {
  constexpr int kDrop = 23 - kFormat.mantissa_bits;
  constexpr std::uint32_t kMagnitudeMask = (1u << (kFormat.bits - 1)) - 1;
  constexpr std::uint32_t kHiddenBit = 1u << kFormat.mantissa_bits;
  constexpr std::uint32_t kInfinity = kMagnitudeMask - (kHiddenBit - 1);
  // 2^(1 - bias - mantissa bits), the step of subnormal numbers, has this exponent field.
  constexpr std::uint32_t kStep = static_cast<std::uint32_t>(127 + 1 - kFormat.bias - kFormat.mantissa_bits) << 23;

  const std::uint32_t magnitude = code & kMagnitudeMask;
  const std::uint32_t sign = (code >> (kFormat.bits - 1)) << 31;
  std::uint32_t wide = 0;
  if (magnitude < kHiddenBit) {
    wide = __builtin_bit_cast(std::uint32_t, static_cast<float>(magnitude) * __builtin_bit_cast(float, kStep));
  } else if (!kFormat.has_infinity && magnitude == kMagnitudeMask) {
    wide = kFloat32Infinity | kFloat32QuietBit;
  } else if (kFormat.has_infinity && magnitude >= kInfinity) {
    const std::uint32_t payload = (magnitude - kInfinity) << kDrop;
    wide = kFloat32Infinity | payload | (payload != 0 ? kFloat32QuietBit : 0);
  } else {
    wide = (magnitude << kDrop) + (static_cast<std::uint32_t>(127 - kFormat.bias) << 23);
  }
  return __builtin_bit_cast(float, sign | wide);
}

template <SmallFormat kFormat>
RONDE_ALWAYS_INLINE constexpr std::uint32_t narrow_small(float value) {
  constexpr int kDrop = 23 - kFormat.mantissa_bits;
  constexpr std::uint32_t kMagnitudeMask = (1u << (kFormat.bits - 1)) - 1;
  constexpr std::uint32_t kHiddenBit = 1u << kFormat.mantissa_bits;
  constexpr std::uint32_t kInfinity = kMagnitudeMask - (kHiddenBit - 1);
  constexpr std::uint32_t kOverflow = kFormat.has_infinity ? kInfinity : kMagnitudeMask - 1;
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kFormat.bias) << 23;
  constexpr std::uint32_t kSmallestNormal = kRebias + (1u << 23);

  const std::uint32_t wide = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t magnitude = wide & kFloat32MagnitudeMask;
  const std::uint32_t sign = (wide >> 31) << (kFormat.bits - 1);
  std::uint32_t code = 0;
  if (magnitude > kFloat32Infinity) {
    constexpr std::uint32_t kQuietBit = kHiddenBit >> 1;
    code = kFormat.has_infinity ? kInfinity | kQuietBit | ((magnitude >> kDrop) & (kHiddenBit - 1)) : kMagnitudeMask;
  } else if (magnitude >= kSmallestNormal) {
    code = shift_right_nearest_even(magnitude - kRebias, kDrop);
    code = code < kOverflow ? code : kOverflow;
  } else {
    // The exponent field e stands for mantissa * 2^(e - 150); the step is 2^(1 - bias - mantissa bits).
    const int shift = 151 - kFormat.bias - kFormat.mantissa_bits - static_cast<int>(magnitude >> 23);
    // From 26 on even the largest mantissa is below half a step (fp32's own subnormal numbers among them).
    code = shift > 25 ? 0 : shift_right_nearest_even((magnitude & 0x007fffff) | 0x00800000, shift);
  }
  return sign | code;
}

RONDE_ALWAYS_INLINE constexpr float widen_float16(std::uint16_t code) { return widen_small<kFloat16Format>(code); }
RONDE_ALWAYS_INLINE constexpr std::uint16_t narrow_float16(float value) {
  return static_cast<std::uint16_t>(narrow_small<kFloat16Format>(value));
}

RONDE_ALWAYS_INLINE constexpr float widen_float8_e4m3(std::uint8_t code) {
  return widen_small<kFloat8E4M3Format>(code);
}
RONDE_ALWAYS_INLINE constexpr std::uint8_t narrow_float8_e4m3(float value) {
  return static_cast<std::uint8_t>(narrow_small<kFloat8E4M3Format>(value));
}

RONDE_ALWAYS_INLINE constexpr float widen_float8_e5m2(std::uint8_t code) {
  return widen_small<kFloat8E5M2Format>(code);
}
RONDE_ALWAYS_INLINE constexpr std::uint8_t narrow_float8_e5m2(float value) {
  return static_cast<std::uint8_t>(narrow_small<kFloat8E5M2Format>(value));
}

RONDE_ALWAYS_INLINE constexpr float widen_bfloat16(std::uint16_t code) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(code) << 16);
}
RONDE_ALWAYS_INLINE constexpr std::uint16_t narrow_bfloat16(float value) {
  const std::uint32_t wide = __builtin_bit_cast(std::uint32_t, value);
  if ((wide & kFloat32MagnitudeMask) > kFloat32Infinity) {
    return static_cast<std::uint16_t>((wide | kFloat32QuietBit) >> 16);
  }
  return static_cast<std::uint16_t>(shift_right_nearest_even(wide, 16));
}

}  // namespace ronde::reduce
