#include "collectives/tuning/probe.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/core_set.h"
#include "transport/line.h"

namespace ronde::collectives {

namespace {

/// A word goes to and fro so often between two looks at the clock.
constexpr std::size_t kRounds = 16;
constexpr std::size_t kBatches = 64;
/// A block fits any core's own cache, and is long enough that the first line's latency does not count.
constexpr std::size_t kBlockBytes = 131072;
constexpr std::size_t kCopies = 12;

/// What the two threads share. The number goes up by one with each hit: odd ones are the caller's, even ones the
/// helper's.
struct Court {
  alignas(transport::kLineBytes) std::atomic<std::uint32_t> ball{0};
  alignas(transport::kLineBytes) std::atomic<bool> over{false};
  std::array<std::byte, kBlockBytes> block{};  ///< written by the caller, fetched by the helper
  std::array<std::byte, kBlockBytes> first{};  ///< the helper's own
  std::array<std::byte, kBlockBytes> second{};
  std::vector<double> fetches;  ///< nanoseconds; the helper's until the ball is back
  std::vector<double> copies;
  std::size_t blocks = 0;  ///< to be fetched once the words have gone over
};

/// One side. When it goes the other one is told.
class Player {
 public:
  Player(Court& court, const std::atomic<std::uint32_t>& stop, Nanoseconds limit)
      : court_(court), stop_(stop), limit_(limit) {}
  ~Player() { court_.over.store(true, std::memory_order_release); }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  /// Until the ball is `number`; false if it does not come.
  bool await(std::uint32_t number) {
    for (unsigned look = 1; court_.ball.load(std::memory_order_acquire) != number; ++look) {
      if (look % 256 != 0) {
        continue;
      }
      if (court_.over.load(std::memory_order_acquire)) {
        return court_.ball.load(std::memory_order_acquire) == number;  // the last hit comes before the end
      }
      if (stop_.load(std::memory_order_relaxed) != 0 || clock_.now() > limit_) {
        return false;
      }
    }
    return true;
  }
  void hit(std::uint32_t number) { court_.ball.store(number, std::memory_order_release); }
  Nanoseconds now() const { return clock_.now(); }

 private:
  Court& court_;
  const std::atomic<std::uint32_t>& stop_;
  const Nanoseconds limit_;
  const RealClock clock_;
};

/// What is met when nothing else ran on the two cores: a quarter of all is that good or better.
double undisturbed(std::vector<double>& times) {
  const auto quarter = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
  std::nth_element(times.begin(), quarter, times.end());
  return *quarter;
}

constexpr auto kHits = static_cast<std::uint32_t>(2 * kRounds * kBatches);

bool help(Court& court, Player& player) {
  for (std::uint32_t hit = 1; hit < kHits; hit += 2) {
    if (!player.await(hit)) {
      return false;
    }
    player.hit(hit + 1);
  }
  for (std::size_t i = 0; i < court.blocks; ++i) {
    const auto hit = static_cast<std::uint32_t>(kHits + 2 * i + 1);
    std::memcpy(court.first.data(), court.second.data(), kBlockBytes);
    if (!player.await(hit)) {
      return false;
    }
    const Nanoseconds begin = player.now();
    std::memcpy(court.first.data(), court.block.data(), kBlockBytes);
    const Nanoseconds fetched = player.now();
    std::memcpy(court.second.data(), court.first.data(), kBlockBytes);
    court.fetches.push_back(static_cast<double>(fetched - begin));
    court.copies.push_back(static_cast<double>(player.now() - fetched));
    player.hit(hit + 1);
  }
  return true;
}

/// The caller's side. The hand-over in nanoseconds, none if the game was not played to its end.
std::optional<double> lead(Court& court, Player& player) {
  std::vector<double> batches;
  batches.reserve(kBatches);
  std::uint32_t hit = 0;
  for (std::size_t batch = 0; batch < kBatches; ++batch) {
    const Nanoseconds begin = player.now();
    for (std::size_t i = 0; i < kRounds; ++i, hit += 2) {
      player.hit(hit + 1);
      if (!player.await(hit + 2)) {
        return std::nullopt;
      }
    }
    batches.push_back(static_cast<double>(player.now() - begin) / (2 * kRounds));
  }
  for (std::size_t i = 0; i < court.blocks; ++i, hit += 2) {
    std::memset(court.block.data(), static_cast<int>(i + 1), kBlockBytes);
    player.hit(hit + 1);
    if (!player.await(hit + 2)) {
      return std::nullopt;
    }
  }
  return undisturbed(batches);
}

/// The calling thread's cores are again as they were.
class KeptCores {
 public:
  KeptCores() = default;
  ~KeptCores() { before_.apply(); }
  KeptCores(const KeptCores&) = delete;
  KeptCores& operator=(const KeptCores&) = delete;

 private:
  const CoreSet before_ = CoreSet::of_this_thread();
};

std::optional<double> play(Court& court, const std::atomic<std::uint32_t>& stop) {
  const std::vector<int> cores = two_apart(CoreSet::of_this_thread().cores());
  if (cores.empty()) {
    return std::nullopt;
  }
  const Nanoseconds limit = RealClock().now() + kMeasureLimit;
  std::thread helper;
  try {
    helper = std::thread([&court, &stop, limit, core = cores[1]] {
      Player player(court, stop, limit);
      if (CoreSet::only(core).apply()) {
        help(court, player);
      }
    });
    pthread_setname_np(helper.native_handle(), "ronde-probe");
  } catch (const std::system_error&) {
    return std::nullopt;
  }
  std::optional<double> hand_over;
  {
    const KeptCores kept;
    Player player(court, stop, limit);
    if (CoreSet::only(cores[0]).apply()) {
      hand_over = lead(court, player);
    }
  }
  helper.join();
  return hand_over;
}

std::uint64_t cache_bytes(int name) { return static_cast<std::uint64_t>(std::max(::sysconf(name), 0L)); }

}  // namespace

std::optional<Measurement> measure(const std::atomic<std::uint32_t>& stop) {
  const auto court = std::make_unique<Court>();
  court->blocks = kCopies;
  court->fetches.reserve(kCopies);
  court->copies.reserve(kCopies);
  const std::optional<double> hand_over = play(*court, stop);
  if (!hand_over) {
    return std::nullopt;
  }
  Measurement measured;
  measured.hand_over = *hand_over;
  measured.fetch = kBlockBytes / undisturbed(court->fetches);
  measured.copy = kBlockBytes / undisturbed(court->copies);
  measured.near_cache = cache_bytes(_SC_LEVEL2_CACHE_SIZE);
  measured.shared_cache = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
  return measured;
}

std::optional<double> measure_hand_over(const std::atomic<std::uint32_t>& stop) {
  return play(*std::make_unique<Court>(), stop);
}

}  // namespace ronde::collectives
