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

#else

constexpr int kFloatLanes = lanes_of(4);
using Floats = Vector<float, kFloatLanes>;
using Words = Vector<std::uint32_t, kFloatLanes>;
/// Comparisons give lanes of all ones or none, signed; SSE and AVX2 have none for unsigned lanes.
using Signed = Vector<std::int32_t, kFloatLanes>;

RONDE_ALWAYS_INLINE Words bits_of(Floats v) { return (Words)v; }
RONDE_ALWAYS_INLINE Floats floats_of(Words v) { return (Floats)v; }
RONDE_ALWAYS_INLINE Words splat(std::uint32_t word) { return Words{} + word; }

// bfloat16 comes in twos: a register of 2 * kFloatLanes codes is kFloatLanes words, whose lower halves become one
// register of floats and whose upper halves another. A lane keeps its word, so nothing is ever shuffled; all that the
// arithmetic in between sees is that elements lie in another order.

RONDE_ALWAYS_INLINE void load_bfloat16_pair(const std::uint16_t* from, Floats* pair) {
  const auto words = load_as<Words>(from);
  pair[0] = floats_of(words << 16);
  pair[1] = floats_of(words & 0xffff0000u);
}

/// The code in the upper half of each word, the lower half undefined. In integers, so that subnormal numbers round as
/// any others: the processor's own conversion (AVX512-BF16) flushes them to zero.
RONDE_ALWAYS_INLINE Words round_to_bfloat16(Floats value) {
  const Words wide = bits_of(value);
  const Words rounded = wide + 0x7fffu + ((wide >> 16) & 1u);
  return value != value ? wide | kFloat32QuietBit : rounded;
}
RONDE_ALWAYS_INLINE void store_bfloat16_pair(const Floats* pair, std::uint16_t* to) {
  const Words words = (round_to_bfloat16(pair[0]) >> 16) | (round_to_bfloat16(pair[1]) & 0xffff0000u);
  __builtin_memcpy(to, &words, sizeof words);
}

#if RONDE_VECTOR_BYTES == 64

// GCC 12 warns of uninitialised values inside the conversions without a mask; with all lanes chosen they are the same.
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
  const Words code = (Words)_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  const Words magnitude = code & 0x7fffu;
  const Words shifted = magnitude << 13;
  // Subnormal numbers: placed below the hidden bit of 2^-14 they are that number plus themselves; take it off again.
  const Words smallest_normal = splat(113u << 23);
  const Words subnormal = bits_of(floats_of(shifted + smallest_normal) - floats_of(smallest_normal));
  const Words normal = shifted + (112u << 23);
  const Words infinite = shifted | kFloat32Infinity;
  const Words nan = infinite | kFloat32QuietBit;
  const auto order = (Signed)magnitude;
  Words wide = order < 0x0400 ? subnormal : normal;
  wide = order >= 0x7c00 ? infinite : wide;
  wide = order > 0x7c00 ? nan : wide;
  return floats_of(wide | ((code & 0x8000u) << 16));
}
RONDE_ALWAYS_INLINE void store_float16(Floats value, std::uint16_t* to) {
  const Words wide = bits_of(value);
  const Words magnitude = wide & kFloat32MagnitudeMask;
  // Subnormal results: adding 1/2 leaves a mantissa whose last bit weighs 2^-24, the step of subnormal numbers, so the
  // addition itself rounds to nearest even; what stands above the bits of 1/2 is the code.
  const Words half = splat(126u << 23);
  const Words subnormal = bits_of(floats_of(magnitude) + floats_of(half)) - half;
  const Words rebased = magnitude - (112u << 23);
  const Words normal = (rebased + 0x0fffu + ((rebased >> 13) & 1u)) >> 13;
  const Words nan = ((magnitude >> 13) & 0x03ffu) | 0x7e00u;
  const auto order = (Signed)magnitude;
  Words code = order < (113 << 23) ? subnormal : normal;
  // From 65520 on, halfway between the largest number and the next that there is not, the result is infinite.
  code = order >= 0x477ff000 ? splat(0x7c00) : code;
  code = value != value ? nan : code;
  code |= (wide >> 16) & 0x8000u;
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi32((__m128i)code, (__m128i)code));
}

#endif
#endif  // RONDE_VECTOR_BYTES == 0

}  // namespace
}  // namespace ronde::reduce::RONDE_LEVEL
