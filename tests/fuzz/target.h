// A fuzz target: one parser of bytes that come from elsewhere, or from a user. Each defines the two functions below.
// libFuzzer calls the first (`make fuzz`); in builds without it the target is a test that tries what is kept in the
// corpus, and mutations of it (replay.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Parses the bytes. A fault is a crash, a sanitizer's report, or expect() of something that does not hold.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ronde::fuzz {

/// Valid inputs, from which mutations begin. One for each form, so that a form that changes needs no new corpus.
std::vector<std::string> seeds();

/// Ends the process if it does not hold.
inline void expect(bool holds) {
  if (!holds) {
    __builtin_trap();
  }
}

}  // namespace ronde::fuzz
