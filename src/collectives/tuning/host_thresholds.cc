#include "collectives/tuning/host_thresholds.h"

#include <cstddef>
#include <iterator>

namespace ronde::collectives {

namespace {

/// In the order of the line's numbers.
constexpr std::uint64_t Thresholds::*kNumbers[] = {&Thresholds::inlined, &Thresholds::one_shot, &Thresholds::staged,
                                                   &Thresholds::chunk, &Thresholds::stream};
static_assert(sizeof(Thresholds) == sizeof(std::uint64_t) * std::size(kNumbers), "no number of a row is left out");
static_assert(std::size(kNumbers) <= std::size(decltype(transport::RulesLine::numbers){}));

}  // namespace

void store(const Thresholds& thresholds, transport::RulesLine& line) {
  for (std::size_t i = 0; i < std::size(kNumbers); ++i) {
    line.numbers[i] = thresholds.*kNumbers[i];
  }
  line.is_set.store(1, std::memory_order_release);
}

Thresholds load_thresholds(const transport::RulesLine& line) {
  Thresholds thresholds;
  if (line.is_set.load(std::memory_order_acquire) != 0) {
    for (std::size_t i = 0; i < std::size(kNumbers); ++i) {
      thresholds.*kNumbers[i] = line.numbers[i];
    }
  }
  return thresholds;
}

}  // namespace ronde::collectives
