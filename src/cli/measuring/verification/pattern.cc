#include "cli/measuring/verification/pattern.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ronde::cli {

namespace {

/// Scattered, so that no two ranks and no two places within a block look alike.
std::int64_t input_value(int rank, std::size_t i, int variant) {
  std::uint32_t mixed =
      static_cast<std::uint32_t>(i + 1) * 0x9e3779b1u + static_cast<std::uint32_t>(rank) * 0x85ebca6bu;
  mixed ^= mixed >> 15;
  mixed *= 0x2c1b3c6du;
  mixed ^= mixed >> 12;
  return (mixed % 3 + static_cast<std::uint32_t>(variant)) % 3;
}

}  // namespace

std::uint64_t encode_whole(ronde_dtype dtype, std::int64_t value) {
  const auto float32 = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  switch (dtype) {
    case RONDE_FLOAT32: return float32;
    case RONDE_FLOAT64: return std::bit_cast<std::uint64_t>(static_cast<double>(value));
    case RONDE_BFLOAT16: return float32 >> 16;
    // Whole numbers are normal in both: 13 mantissa bits fewer, and an exponent counted from 15 in place of 127.
    case RONDE_FLOAT16: return value == 0 ? 0 : (float32 >> 13) - ((127u - 15u) << 10);
    default: return static_cast<std::uint64_t>(value);
  }
}

void Pattern::put(int variant, std::size_t i, std::int64_t value) {
  const std::uint64_t code = encode_whole(dtype_, value);
  std::memcpy(blocks_[variant].data() + i * element_bytes_, &code, element_bytes_);
}

void Pattern::fill(void* to, std::size_t bytes, std::uint64_t call) const {
  const std::vector<std::byte>& block = blocks_[call % kVariants];
  for (std::size_t done = 0; done < bytes; done += block.size()) {
    std::memcpy(static_cast<std::byte*>(to) + done, block.data(), std::min(block.size(), bytes - done));
  }
}

std::optional<std::size_t> Pattern::first_difference(const void* data, std::size_t bytes, std::uint64_t call,
                                                     std::uint64_t skipped) const {
  const std::vector<std::byte>& block = blocks_[call % kVariants];
  std::size_t at = static_cast<std::size_t>(skipped % kPeriod) * element_bytes_;  // in the block
  for (std::size_t done = 0; done < bytes;) {
    const auto* const part = static_cast<const std::byte*>(data) + done;
    const std::size_t part_bytes = std::min(block.size() - at, bytes - done);
    if (std::memcmp(part, block.data() + at, part_bytes) != 0) {
      const auto* const different = std::mismatch(part, part + part_bytes, block.data() + at).first;
      return (done + static_cast<std::size_t>(different - part)) / element_bytes_;
    }
    done += part_bytes;
    at = 0;
  }
  return std::nullopt;
}

Pattern input_pattern(ronde_dtype dtype, int rank) {
  return Pattern(dtype, [rank](std::size_t i, int variant) { return input_value(rank, i, variant); });
}

Pattern sum_pattern(ronde_dtype dtype, int ranks) {
  return Pattern(dtype, [ranks](std::size_t i, int variant) {
    std::int64_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      sum += input_value(rank, i, variant);
    }
    return sum;
  });
}

}  // namespace ronde::cli
