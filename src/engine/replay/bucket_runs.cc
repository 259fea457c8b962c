#include "engine/replay/bucket_runs.h"

#include <algorithm>
#include <utility>

namespace ronde::engine {

void BucketRuns::add(std::uint32_t bucket, std::unique_ptr<BucketRun> run) {
  while (runs_.size() <= bucket) {
    runs_.push_back(nullptr);
  }
  runs_[bucket] = std::move(run);
}

bool BucketRuns::remove(std::uint32_t bucket) { return std::exchange(runs_[bucket], nullptr) != nullptr; }

void BucketRuns::enter(std::uint32_t epoch, std::span<const std::uint32_t> buckets) {
  for (std::uint32_t bucket : buckets) {
    runs_[bucket]->enter(epoch);
  }
  fresh_.reserve(runs_.size());  // published() allocates nothing
  replays_.store(true, std::memory_order_relaxed);
}

void BucketRuns::leave() {
  for (const std::unique_ptr<BucketRun>& run : runs_) {
    if (run && run->is_in_force()) {
      run->leave();
    }
  }
  active_.clear();
  fresh_.clear();
  replays_.store(false, std::memory_order_relaxed);
}

void BucketRuns::collect_published() {
  has_fresh_.store(false, std::memory_order_relaxed);
  for (std::uint32_t bucket : fresh_) {
    active_.insert(std::lower_bound(active_.begin(), active_.end(), bucket), bucket);
  }
  fresh_.clear();
}

void BucketRuns::stop() {
  replays_.store(false, std::memory_order_relaxed);
  active_.clear();
  fresh_.clear();
  has_fresh_.store(false, std::memory_order_relaxed);
}

}  // namespace ronde::engine
