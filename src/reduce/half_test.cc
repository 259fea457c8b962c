#include "reduce/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "reduce/levels.h"
#include "reduce/small_float_reference.h"

namespace ronde::reduce {
namespace {

constexpr std::uint32_t kQuietNan = 0x7fc00000;

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
float from_bits(std::uint32_t value) { return std::bit_cast<float>(value); }

/// fp32 values where narrowing to a format with `mantissa_bits` has something to decide: every exponent with mantissas
/// at, below and above the rounding ties, and random ones; both signs; infinities, NaNs of all payloads' ends.
std::vector<float> interesting_floats(int mantissa_bits) {
  std::vector<float> values;
  const std::uint32_t half_step = 1u << (22 - mantissa_bits);
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (std::uint32_t step = 0; step < 6; ++step) {
      for (std::uint32_t base : {0u, half_step * 2 * step, half_step * (2 * step + 1), 0x7fffffu - half_step * step}) {
        for (std::uint32_t nudge : {0u, 1u, 0x7fffffu}) {
          const std::uint32_t mantissa = (base + nudge) & 0x7fffff;
          values.push_back(from_bits((exponent << 23) | mantissa));
          values.push_back(from_bits(0x80000000 | (exponent << 23) | mantissa));
        }
      }
    }
    // Ties of subnormal results lie at other mantissas: single bits and their neighbours.
    for (int bit = 0; bit < 23; ++bit) {
      for (std::uint32_t nudge : {0u, 1u, 0x7fffffu}) {
        values.push_back(from_bits((exponent << 23) | (((1u << bit) + nudge) & 0x7fffff)));
      }
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i) {
    values.push_back(from_bits(static_cast<std::uint32_t>(random())));
  }
  std::uniform_int_distribution<std::uint32_t> around_float16(0x32000000, 0x48000000);
  for (int i = 0; i < 200000; ++i) {
    values.push_back(from_bits(around_float16(random)));
  }
  return values;
}

template <typename Code>
void expect_widens(reference::Format format, float (*widen)(Code)) {
  for (std::uint32_t code = 0; code < (1u << format.bits()); ++code) {
    const float wide = widen(static_cast<Code>(code));
    if (reference::is_nan(format, code)) {
      EXPECT_TRUE(std::isnan(wide)) << std::hex << code;
      EXPECT_EQ(std::signbit(wide), (code & format.sign_bit()) != 0) << std::hex << code;
    } else {
      ASSERT_EQ(bits(wide), bits(static_cast<float>(reference::decode(format, code)))) << std::hex << code;
    }
  }
}

template <typename Code>
void expect_narrows(reference::Format format, Code (*narrow)(float)) {
  for (float value : interesting_floats(format.mantissa_bits)) {
    const Code code = narrow(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(reference::is_nan(format, code)) << std::hex << bits(value);
      ASSERT_EQ((code & format.sign_bit()) != 0, std::signbit(value)) << std::hex << bits(value);
    } else {
      ASSERT_EQ(code, reference::encode(format, value)) << std::hex << bits(value);
    }
  }
}

/// Every value of the format survives the way to fp32 and back; a signalling NaN comes back quiet.
template <typename Code>
void expect_round_trip(reference::Format format, float (*widen)(Code), Code (*narrow)(float)) {
  const std::uint32_t quiet_bit = format.has_infinity ? 1u << (format.mantissa_bits - 1) : 0;
  for (std::uint32_t code = 0; code < (1u << format.bits()); ++code) {
    const std::uint32_t expected = reference::is_nan(format, code) ? code | quiet_bit : code;
    ASSERT_EQ(narrow(widen(static_cast<Code>(code))), expected) << std::hex << code;
  }
}

// Inline functions have no address of their own here: half.h keeps them out of the program.
constexpr auto kWidenFloat16 = +[](std::uint16_t code) { return widen_float16(code); };
constexpr auto kWidenBfloat16 = +[](std::uint16_t code) { return widen_bfloat16(code); };
constexpr auto kWidenFloat8E4M3 = +[](std::uint8_t code) { return widen_float8_e4m3(code); };
constexpr auto kWidenFloat8E5M2 = +[](std::uint8_t code) { return widen_float8_e5m2(code); };
constexpr auto kNarrowFloat16 = +[](float value) { return narrow_float16(value); };
constexpr auto kNarrowBfloat16 = +[](float value) { return narrow_bfloat16(value); };
constexpr auto kNarrowFloat8E4M3 = +[](float value) { return narrow_float8_e4m3(value); };
constexpr auto kNarrowFloat8E5M2 = +[](float value) { return narrow_float8_e5m2(value); };

template <typename Code>
void expect_converts(reference::Format format, float (*widen)(Code), Code (*narrow)(float)) {
  expect_widens(format, widen);
  expect_narrows(format, narrow);
  expect_round_trip(format, widen, narrow);
}

TEST(Half, Float16) { expect_converts(reference::kFloat16, kWidenFloat16, kNarrowFloat16); }
TEST(Half, Bfloat16) { expect_converts(reference::kBfloat16, kWidenBfloat16, kNarrowBfloat16); }
TEST(Half, Float8E4M3) { expect_converts(reference::kFloat8E4M3, kWidenFloat8E4M3, kNarrowFloat8E4M3); }
TEST(Half, Float8E5M2) { expect_converts(reference::kFloat8E5M2, kWidenFloat8E5M2, kNarrowFloat8E5M2); }

TEST(Half, KnownValues) {
  EXPECT_EQ(narrow_float16(1.0f), 0x3c00);
  EXPECT_EQ(narrow_float16(65519.0f), 0x7bff);
  EXPECT_EQ(narrow_float16(65520.0f), 0x7c00);
  EXPECT_EQ(narrow_float16(0x1p-24f), 0x0001);
  EXPECT_EQ(narrow_float16(0x1p-25f), 0x0000);
  EXPECT_EQ(narrow_float16(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(narrow_float16(-0.0f), 0x8000);
  EXPECT_EQ(narrow_float16(from_bits(0x7f802000)), 0x7e01) << "the payload's upper bits stay, the quiet bit is set";
  EXPECT_EQ(bits(widen_float16(0x7c01)), kQuietNan | (1u << 13));
  EXPECT_EQ(narrow_bfloat16(1.0f), 0x3f80);
  EXPECT_EQ(narrow_bfloat16(from_bits(0x7f7fffff)), 0x7f80) << "the largest float rounds to infinity";
  EXPECT_EQ(narrow_bfloat16(from_bits(0x7f800001)), 0x7fc0);
  EXPECT_EQ(narrow_bfloat16(from_bits(0x00018000)), 0x0002) << "subnormal numbers round as any others";
  EXPECT_EQ(narrow_float8_e4m3(448.0f), 0x7e);
  EXPECT_EQ(narrow_float8_e4m3(464.0f), 0x7e);
  EXPECT_EQ(narrow_float8_e4m3(465.0f), 0x7e) << "there is no infinity";
  EXPECT_EQ(narrow_float8_e4m3(-from_bits(kFloat32Infinity)), 0xfe);
  EXPECT_EQ(narrow_float8_e4m3(from_bits(kQuietNan)), 0x7f);
  EXPECT_EQ(narrow_float8_e5m2(57344.0f), 0x7b);
  EXPECT_EQ(narrow_float8_e5m2(61440.0f), 0x7c);
}

// The conversions as the kernels of each level do them, against half.h, bit for bit.

using Widen = void (*)(const std::uint16_t*, float*, std::size_t);
using Narrow = void (*)(const float*, std::uint16_t*, std::size_t);

void expect_level_widens(Widen level_widen, float (*widen)(std::uint16_t)) {
  std::vector<std::uint16_t> codes(65536);
  for (std::uint32_t code = 0; code < codes.size(); ++code) {
    codes[code] = static_cast<std::uint16_t>(code);
  }
  std::vector<float> wide(codes.size());
  level_widen(codes.data(), wide.data(), codes.size());
  for (std::uint32_t code = 0; code < codes.size(); ++code) {
    ASSERT_EQ(bits(wide[code]), bits(widen(codes[code]))) << std::hex << code;
  }
}

void expect_level_narrows(int mantissa_bits, Narrow level_narrow, std::uint16_t (*narrow)(float)) {
  const std::vector<float> values = interesting_floats(mantissa_bits);
  std::vector<std::uint16_t> codes(values.size());
  level_narrow(values.data(), codes.data(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(codes[i], narrow(values[i])) << std::hex << bits(values[i]);
  }
}

TEST(Half, EveryLevelConvertsAlike) {
  for (const Level& level : runnable_levels()) {
    SCOPED_TRACE(level.name);
    expect_level_widens(level.table->widen_float16, kWidenFloat16);
    expect_level_widens(level.table->widen_bfloat16, kWidenBfloat16);
    expect_level_narrows(10, level.table->narrow_float16, kNarrowFloat16);
    expect_level_narrows(7, level.table->narrow_bfloat16, kNarrowBfloat16);
  }
}

}  // namespace
}  // namespace ronde::reduce
