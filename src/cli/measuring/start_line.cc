#include "cli/measuring/start_line.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
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

}  // namespace

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

int StartLine::meet(std::chrono::seconds limit) {
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
  constexpr int kSamples = 31;
  constexpr std::uint64_t kRounds = 100;
  if (ranks_ < 2 || !may_spin_ || rank_ > 1) {
    return 0;
  }
  std::atomic<std::uint64_t>& mine = own().ping;
  std::atomic<std::uint64_t>& theirs = entries_[1 - rank_].ping;
  std::vector<double> samples;
  for (int sample = 0; sample < kSamples; ++sample) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t turn = mine.load(std::memory_order_relaxed) + 1;
      // Rank 0 serves, rank 1 returns.
      if (rank_ == 0) {
        mine.store(turn, std::memory_order_release);
      }
      while (theirs.load(std::memory_order_acquire) < turn) {
        relax();
      }
      if (rank_ == 1) {
        mine.store(turn, std::memory_order_release);
      }
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    samples.push_back(took.count() / (2.0 * kRounds));
  }
  std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
  return samples[kSamples / 2];
}

bool StartLine::any_failed() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (of(rank).has_failed != 0) {
      return true;
    }
  }
  return false;
}

SharedPages::SharedPages(int descriptor, std::size_t bytes) : descriptor_(descriptor), bytes_(bytes) {
  if (descriptor_ < 0) {
    return;
  }
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  data_ = data == MAP_FAILED ? nullptr : data;
}

SharedPages SharedPages::create(std::size_t bytes) {
  const int descriptor = memfd_create("ronde bench", MFD_CLOEXEC);
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    close(descriptor);
    return SharedPages(-1, bytes);
  }
  return SharedPages(descriptor, bytes);
}

SharedPages SharedPages::open(std::int64_t pid, std::int64_t descriptor, std::size_t bytes) {
  return open("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor), bytes);
}

SharedPages SharedPages::open(const std::string& path, std::size_t bytes) {
  return SharedPages(::open(path.c_str(), O_RDWR | O_CLOEXEC), bytes);
}

SharedPages::SharedPages(SharedPages&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_) {}

SharedPages::~SharedPages() {
  if (data_ != nullptr) {
    munmap(data_, bytes_);
  }
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

}  // namespace ronde::cli
