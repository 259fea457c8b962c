#include "launches.h"

#include <algorithm>
#include <cstddef>

namespace ronde::jax {

namespace {

/// So many executions in a row may make no call. Numbers of two executables are as close by one chance in some ten
/// million.
constexpr std::int64_t kMostLeftOut = 256;

/// Of so many executables of a program the numbers are remembered.
constexpr std::size_t kMostLines = 64;

/// From one number to another, as XLA counts: with 32 bits, around.
std::int64_t distance(std::int64_t from, std::int64_t to) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(to) - static_cast<std::uint32_t>(from));
}

}  // namespace

std::int64_t Launches::left_out(std::uint64_t program, std::int64_t launch, std::int64_t epoch) {
  std::vector<Line>& lines = lines_[program];
  auto mine = lines.end();
  for (auto line = lines.begin(); line != lines.end(); ++line) {
    const std::int64_t step = distance(line->last, launch);
    if (step > 0 && step <= kMostLeftOut && (mine == lines.end() || step < distance(mine->last, launch))) {
      mine = line;
    }
  }
  std::int64_t left_out = 0;
  if (mine != lines.end()) {
    left_out = mine->epoch == epoch ? distance(mine->last, launch) - 1 : 0;
    lines.erase(mine);
  } else if (lines.size() == kMostLines) {
    lines.erase(lines.begin());
  }
  lines.push_back({launch, epoch});
  return left_out;
}

}  // namespace ronde::jax
