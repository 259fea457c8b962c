// What the checks of <ronde/torch.hpp> have in common: which rank this is, and how many checks have failed.
#pragma once

#include <ronde/torch.hpp>

#include <cstdio>
#include <string>

inline int rank = 0;
inline int size = 1;
inline int checks = 0;
inline int wrong = 0;

inline void check(bool is_right, const std::string& what) {
  ++checks;
  if (!is_right) {
    ++wrong;
    std::printf("rank %d: %s is wrong\n", rank, what.c_str());
  }
}

inline void check_equal(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  const bool is_right = found.defined() && found.sizes() == expected.sizes() &&
                        found.scalar_type() == expected.scalar_type() && at::equal(found.contiguous(), expected);
  check(is_right, what);
  if (!is_right && found.defined() && found.numel() < 20) {
    std::printf("found %s, expected %s\n", c10::str(found).c_str(), c10::str(expected).c_str());
  }
}

/// Throws with this code, and with these words in its sentence.
template <typename Call>
void check_refused(const Call& call, const std::string& words, const std::string& what) {
  try {
    call();
    check(false, what + " (nothing was thrown)");
  } catch (const ronde::Error& error) {
    check(error.code() == ronde::Code::invalid_argument && std::string(error.what()).find(words) != std::string::npos,
          what + " (" + error.what() + ")");
  }
}

/// DistributedOptimizer and the state of optimizers.
void check_optimizers();
/// Its steps that evaluate the model themselves.
void check_closures();
