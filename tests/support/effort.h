// How often a test repeats what it tries at random. A sanitizer multiplies the time of every access and reports a fault
// at its first occurrence: there a tenth of the repetitions must do, so that all tests fit into a quarter of an hour.
#pragma once

#include <algorithm>
#include <vector>

namespace ronde {

/// `full`, in a sanitizer's build a tenth of it.
constexpr int effort(int full) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::max(full / 10, 1);
#else
  return full;
#endif
}

constexpr bool kFullEffort = effort(10) == 10;

#if defined(__SANITIZE_THREAD__)
constexpr bool kUnderThreadSanitizer = true;
#else
constexpr bool kUnderThreadSanitizer = false;
#endif

/// In how many random orders one thread plays the parts of all ranks, where threads play them as well: ThreadSanitizer
/// has nothing to see in it.
constexpr int kOrdersByHand = kUnderThreadSanitizer ? 0 : (kFullEffort ? 2 : 1);

/// World sizes of tests in which one thread plays all ranks and no others do.
inline const std::vector<int> kWorldsByHand =
    kUnderThreadSanitizer ? std::vector<int>{2, 3} : std::vector<int>{1, 2, 3, 5, 8};
inline const std::vector<int> kWorldsOfSeveralByHand =
    kUnderThreadSanitizer ? std::vector<int>{2, 3} : std::vector<int>{2, 3, 5, 8};

}  // namespace ronde
