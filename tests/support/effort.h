// How often a test repeats what it tries at random. A sanitizer multiplies the time of every access and reports a fault
// at its first occurrence: there a tenth of the repetitions must do, so that all tests fit into a quarter of an hour.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace ronde {

/// `full`, in a sanitizer's build a tenth of it.
constexpr int effort(int full) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::max(full / 10, 1);
#else
  return full;
#endif
}

/// What a variable asks for instead of `otherwise`: how many, say, or from which on.
inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
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

}  // namespace ronde
