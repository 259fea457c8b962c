// Known numbers to send and to expect. Rank r's element i in call k is 0, 1 or 2; the sum over the ranks is then exact
// in every type (bfloat16 up to 128 ranks, 8-bit integers wrap as they should), so results are compared bit for bit.
//
// Filling and comparing work from blocks of kPeriod elements that stay in the first-level cache: rewriting a tensor
// before each timed call leaves it in the cache as a gradient just computed would be, and drives nothing else out.
// kPeriod is prime: data that lands in the wrong place by any power of two shows.
#pragma once

#include <ronde/ronde.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cli/measuring/workload/options.h"

namespace ronde::cli {

class Pattern {
 public:
  static constexpr std::size_t kPeriod = 1021;
  static constexpr int kVariants = 3;  ///< call k uses variant k % kVariants

  /// A pattern of the values value(i, variant), which are small whole numbers.
  template <typename Value>
  Pattern(ronde_dtype dtype, Value value) : dtype_(dtype), element_bytes_(bench_dtype_bytes(dtype)) {
    for (int variant = 0; variant < kVariants; ++variant) {
      blocks_[variant].resize(kPeriod * element_bytes_);
      for (std::size_t i = 0; i < kPeriod; ++i) {
        put(variant, i, value(i, variant));
      }
    }
  }

  void fill(void* to, std::size_t bytes, std::uint64_t call) const;
  /// The first element that is not as fill() would make it, the data being what comes after the pattern's first
  /// `skipped` elements; nothing if all are.
  std::optional<std::size_t> first_difference(const void* data, std::size_t bytes, std::uint64_t call,
                                              std::uint64_t skipped = 0) const;

 private:
  void put(int variant, std::size_t i, std::int64_t value);

  ronde_dtype dtype_;
  std::size_t element_bytes_;
  std::vector<std::byte> blocks_[kVariants];
};

/// What rank r sends.
Pattern input_pattern(ronde_dtype dtype, int rank);
/// The sum of what all ranks send.
Pattern sum_pattern(ronde_dtype dtype, int ranks);

/// The code of a whole number in the low bytes: integers wrap; floats are exact up to 2048 (bfloat16: 256).
std::uint64_t encode_whole(ronde_dtype dtype, std::int64_t value);

}  // namespace ronde::cli
