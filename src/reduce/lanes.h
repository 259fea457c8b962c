// A level's registers: how many values one holds, and how 16-bit floats enter and leave it. Included by kernels.cc
// only, for which CMakeLists.txt sets RONDE_LEVEL (the namespace) and RONDE_VECTOR_BYTES (0: no vectors, one value at a
// time).
#pragma once

#include <cstdint>

#include "reduce/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ronde::reduce::RONDE_LEVEL {
namespace {

/// kLanes values of type T in one register, by the compiler's vector extension: +, *, <= and ?: work lane by lane. One
/// lane is a plain T, on which the same expressions mean the same.
template <typename T, int kLanes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(sizeof(T) * kLanes)));
};
template <typename T>
struct VectorOf<T, 1> {
  using Type = T;
};
template <typename T, int kLanes>
using Vector = typename VectorOf<T, kLanes>::Type;

/// Lanes of a register when each value takes this many bytes.
constexpr int lanes_of(int bytes) { return RONDE_VECTOR_BYTES == 0 ? 1 : RONDE_VECTOR_BYTES / bytes; }

template <typename V, typename T>
RONDE_ALWAYS_INLINE V load_as(const T* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

#if RONDE_VECTOR_BYTES == 0

RONDE_ALWAYS_INLINE float load_float16(const std::uint16_t* from) { return widen_float16(*from); }
RONDE_ALWAYS_INLINE void store_float16(float value, std::uint16_t* to) { *to = narrow_float16(value); }
RONDE_ALWAYS_INLINE float load_bfloat16(const std::uint16_t* from) { return widen_bfloat16(*from); }
RONDE_ALWAYS_INLINE void store_bfloat16(float value, std::uint16_t* to) { *to = narrow_bfloat16(value); }

#else

constexpr int kFloatLanes = lanes_of(4);
using Floats = Vector<float, kFloatLanes>;
using Words = Vector<std::uint32_t, kFloatLanes>;

RONDE_ALWAYS_INLINE Words bits_of(Floats v) { return (Words)v; }
RONDE_ALWAYS_INLINE Floats floats_of(Words v) { return (Floats)v; }
/// Comparisons give signed lanes of all ones or none; as a mask they are words.
template <typename Mask>
RONDE_ALWAYS_INLINE Words mask_of(Mask mask) {
  return (Words)mask;
}

/// kFloatLanes 16-bit codes to 32-bit lanes and back; the upper half of each lane must be zero on the way back.
RONDE_ALWAYS_INLINE Words load_codes(const std::uint16_t* from) {
#if RONDE_VECTOR_BYTES == 64
  // Not _mm512_cvtepu16_epi32: GCC 12 warns of uninitialised values inside its unmasked AVX-512 conversions.
  return __builtin_convertvector((load_as<Vector<std::uint16_t, kFloatLanes>>(from)), Words);
#elif RONDE_VECTOR_BYTES == 32
  return (Words)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__x86_64__)
  return (Words)_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
  return (Words)vmovl_u16(vld1_u16(from));
#endif
}
RONDE_ALWAYS_INLINE void store_codes(Words codes, std::uint16_t* to) {
#if RONDE_VECTOR_BYTES == 64
  const auto narrow = __builtin_convertvector(codes, Vector<std::uint16_t, kFloatLanes>);
  __builtin_memcpy(to, &narrow, sizeof narrow);
#elif RONDE_VECTOR_BYTES == 32
  const __m128i low = _mm256_castsi256_si128((__m256i)codes);
  const __m128i high = _mm256_extracti128_si256((__m256i)codes, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_packus_epi32(low, high));
#elif defined(__x86_64__)
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi32((__m128i)codes, (__m128i)codes));
#else
  vst1_u16(to, vmovn_u32((uint32x4_t)codes));
#endif
}

RONDE_ALWAYS_INLINE Floats load_bfloat16(const std::uint16_t* from) { return floats_of(load_codes(from) << 16); }

/// In integers, so that subnormal numbers round as any others: the processor's own conversion (AVX512-BF16) flushes
/// them to zero.
RONDE_ALWAYS_INLINE void store_bfloat16(Floats value, std::uint16_t* to) {
  const Words wide = bits_of(value);
  const Words rounded = (wide + 0x7fff + ((wide >> 16) & 1)) >> 16;
  const Words quiet = (wide | kFloat32QuietBit) >> 16;
  store_codes(value != value ? quiet : rounded, to);
}

#if RONDE_VECTOR_BYTES == 64

constexpr __mmask16 kAll = 0xffff;

RONDE_ALWAYS_INLINE Floats load_float16(const std::uint16_t* from) {
  return (Floats)_mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
RONDE_ALWAYS_INLINE void store_float16(Floats value, std::uint16_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_maskz_cvtps_ph(kAll, (__m512)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#elif RONDE_VECTOR_BYTES == 32

RONDE_ALWAYS_INLINE Floats load_float16(const std::uint16_t* from) {
  return (Floats)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
RONDE_ALWAYS_INLINE void store_float16(Floats value, std::uint16_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#elif defined(__aarch64__)

RONDE_ALWAYS_INLINE Floats load_float16(const std::uint16_t* from) {
  return (Floats)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
}
RONDE_ALWAYS_INLINE void store_float16(Floats value, std::uint16_t* to) {
  vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)value)));
}

#else  // x86-64-v2 has no conversion instruction: the rules of half.h with selections in place of branches

RONDE_ALWAYS_INLINE Floats load_float16(const std::uint16_t* from) {
  const Words code = load_codes(from);
  const Words magnitude = code & 0x7fff;
  const Words shifted = magnitude << 13;
  // Subnormal numbers: placed below the hidden bit of 2^-14 they are that number plus themselves; take it off again.
  constexpr std::uint32_t kSmallestNormal = 113u << 23;
  const Floats base = floats_of(Words{} + kSmallestNormal);
  const Words subnormal = bits_of(floats_of(shifted + kSmallestNormal) - base);
  const Words normal = shifted + (112u << 23);
  const Words special = shifted | kFloat32Infinity | (mask_of(magnitude > 0x7c00) & kFloat32QuietBit);
  const Words wide = magnitude < 0x0400 ? subnormal : magnitude < 0x7c00 ? normal : special;
  return floats_of(wide | ((code & 0x8000) << 16));
}
RONDE_ALWAYS_INLINE void store_float16(Floats value, std::uint16_t* to) {
  const Words wide = bits_of(value);
  const Words magnitude = wide & kFloat32MagnitudeMask;
  // Subnormal results: adding 1/2 leaves a mantissa whose last bit weighs 2^-24, the step of subnormal numbers, so the
  // addition itself rounds to nearest even; what stands above the bits of 1/2 is the code.
  constexpr std::uint32_t kHalf = 126u << 23;
  const Words subnormal = bits_of(floats_of(magnitude) + floats_of(Words{} + kHalf)) - kHalf;
  const Words rebased = magnitude - (112u << 23);
  Words normal = (rebased + 0x0fff + ((rebased >> 13) & 1)) >> 13;
  normal = normal < 0x7c00 ? normal : Words{} + 0x7c00;
  const Words nan = 0x7e00 | ((magnitude >> 13) & 0x03ff);
  const Words code = magnitude < (113u << 23) ? subnormal : magnitude <= kFloat32Infinity ? normal : nan;
  store_codes(code | ((wide >> 16) & 0x8000), to);
}

#endif
#endif  // RONDE_VECTOR_BYTES == 0

}  // namespace
}  // namespace ronde::reduce::RONDE_LEVEL
