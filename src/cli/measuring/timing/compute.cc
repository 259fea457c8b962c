#include "cli/measuring/timing/compute.h"

#include <algorithm>
#include <chrono>

namespace ronde::cli {

namespace {

/// A chain of multiplications, each of which needs the last: nothing of it can be left out or done twice as fast.
void multiply(std::uint64_t rounds) {
  std::uint64_t value = rounds | 1;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    value = value * 0x9e3779b97f4a7c15u + 1;
  }
  [[maybe_unused]] volatile std::uint64_t kept = value;
}

}  // namespace

Compute::Compute(double microseconds) {
  constexpr std::uint64_t kRounds = 100000;
  constexpr int kTries = 20;
  double fastest = 1e9;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const auto begin = std::chrono::steady_clock::now();
    multiply(kRounds);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    fastest = std::min(fastest, took.count());
  }
  rounds_ = static_cast<std::uint64_t>(microseconds / fastest * kRounds);
}

void Compute::run() const { multiply(rounds_); }

}  // namespace ronde::cli
