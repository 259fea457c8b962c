#include "reduce/neutral.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

namespace ronde::reduce {

namespace {

constexpr std::size_t kLongestElement = 16;

/// Bit patterns of 1, of the largest value and of the smallest.
struct Extremes {
  std::uint64_t one;
  std::uint64_t largest;
  std::uint64_t smallest;
};

template <typename T>
constexpr Extremes integers() {
  using Bits = std::make_unsigned_t<T>;
  return {1, static_cast<Bits>(std::numeric_limits<T>::max()), static_cast<Bits>(std::numeric_limits<T>::min())};
}

Extremes extremes_of(DType dtype) {
  switch (dtype) {
    case DType::boolean: return {1, 1, 0};
    case DType::uint8: return integers<std::uint8_t>();
    case DType::int8: return integers<std::int8_t>();
    case DType::int16: return integers<std::int16_t>();
    case DType::uint16: return integers<std::uint16_t>();
    case DType::int32: return integers<std::int32_t>();
    case DType::int64: return integers<std::int64_t>();
    case DType::uint32: return integers<std::uint32_t>();
    case DType::uint64: return integers<std::uint64_t>();
    case DType::float16: return {0x3c00, 0x7c00, 0xfc00};
    case DType::bfloat16: return {0x3f80, 0x7f80, 0xff80};
    case DType::float8_e4m3: return {0x38, 0x7e, 0xfe};  // 448: it has no infinity
    case DType::float8_e5m2: return {0x3c, 0x7c, 0xfc};
    case DType::complex64:  // its real part comes first; it has no order
    case DType::float32: return {0x3f800000, 0x7f800000, 0xff800000};
    case DType::complex128:
    case DType::float64: return {0x3ff0000000000000, 0x7ff0000000000000, 0xfff0000000000000};
  }
  return {};
}

std::array<std::byte, kLongestElement> neutral_of(DType dtype, ReduceOp op) {
  static_assert(std::endian::native == std::endian::little);
  std::array<std::byte, kLongestElement> element{};
  const Extremes extremes = extremes_of(dtype);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      if (!is_integer(dtype) && dtype != DType::boolean) {
        // Negative zero: the positive one would make a positive zero of a negative one (IEEE 754, 6.3).
        const std::size_t bytes = dtype_bytes(dtype);
        element[bytes - 1] = std::byte{0x80};
        element[is_complex(dtype) ? bytes / 2 - 1 : bytes - 1] = std::byte{0x80};
      }
      break;
    case ReduceOp::product: std::memcpy(element.data(), &extremes.one, sizeof extremes.one); break;
    case ReduceOp::min: std::memcpy(element.data(), &extremes.largest, sizeof extremes.largest); break;
    case ReduceOp::max: std::memcpy(element.data(), &extremes.smallest, sizeof extremes.smallest); break;
    case ReduceOp::bit_and: element.fill(dtype == DType::boolean ? std::byte{1} : std::byte{0xff}); break;
    default: break;
  }
  return element;
}

}  // namespace

void fill_neutral(DType dtype, ReduceOp op, std::span<std::byte> elements) {
  const std::size_t bytes = dtype_bytes(dtype);
  const auto element = neutral_of(dtype, op);
  for (std::size_t at = 0; bytes > 0 && at + bytes <= elements.size(); at += bytes) {
    std::copy_n(element.begin(), bytes, elements.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void fill_empty(DType dtype, ReduceOp op, std::span<std::byte> elements) {
  if (op == ReduceOp::sum || op == ReduceOp::average || op == ReduceOp::adasum) {
    std::fill(elements.begin(), elements.end(), std::byte{0});
  } else {
    fill_neutral(dtype, op, elements);
  }
}

}  // namespace ronde::reduce
