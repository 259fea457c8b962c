// How a range of bytes is cut into one slice per rank.
#pragma once

#include <algorithm>
#include <cstddef>

#include "transport/line.h"

namespace ronde::collectives {

constexpr std::size_t round_up_to_line(std::size_t bytes) {
  return (bytes + transport::kLineBytes - 1) / transport::kLineBytes * transport::kLineBytes;
}

/// How `bytes` are cut into chunks of at most `most`: all of the same size but for rounding, so that the last is not a
/// stub.
struct Chunks {
  Chunks(std::size_t bytes, std::size_t most)
      : count((bytes + most - 1) / most), bytes_each(round_up_to_line((bytes + count - 1) / count)) {}
  std::size_t count;
  std::size_t bytes_each;  ///< a multiple of a line
};

/// Positions of a gather list.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t bytes() const { return end - begin; }
};

/// The part of `whole` that a rank owns: equal parts rounded up to lines, so the last ones may be smaller or empty.
inline Range slice_of(const Range& whole, int rank, int ranks) {
  const std::size_t bytes =
      round_up_to_line((whole.bytes() + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks));
  const std::size_t begin = whole.begin + static_cast<std::size_t>(rank) * bytes;
  return {std::min(begin, whole.end), std::min(begin + bytes, whole.end)};
}

}  // namespace ronde::collectives
