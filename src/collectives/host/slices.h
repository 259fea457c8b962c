// How a range of bytes is cut into one slice per rank.
#pragma once

#include <algorithm>
#include <cstddef>

#include "transport/arena.h"

namespace ronde::collectives {

constexpr std::size_t round_up_to_line(std::size_t bytes) {
  return (bytes + transport::kLineBytes - 1) / transport::kLineBytes * transport::kLineBytes;
}

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
