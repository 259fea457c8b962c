#include "cli/measuring/timing/start_line.h"

#include <sched.h>

#include <algorithm>
#include <vector>

namespace ronde::cli {

namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins, and yields now and then: the other rank may wait for this very core.
template <typename Condition>
void spin_until(Condition condition) {
  constexpr int kSpins = 1000;
  for (;;) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (condition()) {
        return;
      }
      relax();
    }
    sched_yield();
  }
}

}  // namespace

int StartLine::meet(std::chrono::seconds limit) {
  if (exchange_) {
    failure_ = exchange_();
    return failure_.empty() ? -1 : rank_;
  }
  // About a millisecond: longer than the ranks' preparations for a call differ, short beside a scheduler's time slice.
  constexpr int kSpins = 20000;
  const std::uint64_t round = own().arrivals.load(std::memory_order_relaxed) + 1;
  own().arrivals.store(round, std::memory_order_release);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int spins = may_spin_ ? kSpins : 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    while (of(rank).arrivals.load(std::memory_order_acquire) < round) {
      if (spins > 0) {
        --spins;
        relax();
        continue;
      }
      sched_yield();
      if (std::chrono::steady_clock::now() > deadline) {
        return rank;
      }
    }
  }
  return -1;
}

double StartLine::longest_seconds() const {
  double longest = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    longest = std::max(longest, of(rank).seconds);
  }
  return longest;
}

double StartLine::longest_compute_seconds() const {
  double longest = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    longest = std::max(longest, of(rank).compute_seconds);
  }
  return longest;
}

double StartLine::line_ns() {
  if (ranks_ < 2 || !may_spin_ || rank_ > 1) {
    return 0;
  }
  return rank_ == 0 ? serve_pings() : return_pings();
}

double StartLine::serve_pings() {
  constexpr int kSamples = 31;
  constexpr std::uint64_t kRounds = 50;
  constexpr std::chrono::milliseconds kLongest{50};
  std::vector<double> samples;
  const auto begin = std::chrono::steady_clock::now();
  auto sample_begin = begin;
  while (samples.size() < kSamples && sample_begin - begin < kLongest) {
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t turn = own().ping.load(std::memory_order_relaxed) + 1;
      own().ping.store(turn, std::memory_order_release);
      spin_until([&] { return entries_[1].ping.load(std::memory_order_acquire) >= turn; });
    }
    const auto now = std::chrono::steady_clock::now();
    samples.push_back(std::chrono::duration<double, std::nano>(now - sample_begin).count() / (2.0 * kRounds));
    sample_begin = now;
  }
  own().pings_over.fetch_add(1, std::memory_order_release);
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

double StartLine::return_pings() {
  const std::uint64_t over = own().pings_over.load(std::memory_order_relaxed) + 1;
  for (;;) {
    const std::uint64_t turn = own().ping.load(std::memory_order_relaxed) + 1;
    bool is_over = false;
    spin_until([&] {
      is_over = entries_[0].pings_over.load(std::memory_order_acquire) >= over;
      return is_over || entries_[0].ping.load(std::memory_order_acquire) >= turn;
    });
    if (is_over) {
      own().pings_over.store(over, std::memory_order_relaxed);
      return 0;
    }
    own().ping.store(turn, std::memory_order_release);
  }
}

bool StartLine::any_failed() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (of(rank).has_failed != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace ronde::cli
