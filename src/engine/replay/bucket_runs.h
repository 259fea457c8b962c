// BucketRuns: this rank's buckets by their number: which of them are in force, and in which an instance is under way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/replay/bucket_run.h"

namespace ronde::engine {

class BucketRuns {
 public:
  // ---- Any thread. Hints.

  /// Buckets are in force.
  bool replays() const { return replays_.load(std::memory_order_relaxed); }
  /// One was published that collect_published() has yet to see.
  bool has_published() const { return has_fresh_.load(std::memory_order_acquire); }

  // ---- Under the gate.

  /// A bucket that was prepared. Null: it was refused here.
  void add(std::uint32_t bucket, std::unique_ptr<BucketRun> run);
  /// False if it was refused here. Requires: it was added.
  bool remove(std::uint32_t bucket);
  /// Requires: it was added, was not refused and is not removed.
  BucketRun& operator[](std::uint32_t bucket) { return *runs_[bucket]; }
  const BucketRun& operator[](std::uint32_t bucket) const { return *runs_[bucket]; }
  /// By bucket; null where there is none.
  const std::vector<std::unique_ptr<BucketRun>>& all() const { return runs_; }

  /// These come into force in an epoch, beside those that are already.
  void enter(std::uint32_t epoch, std::span<const std::uint32_t> buckets);
  /// The epoch is over here: none is in force, and nothing is under way.
  void leave();
  /// Its instance is full here.
  void published(std::uint32_t bucket) {
    fresh_.push_back(bucket);
    has_fresh_.store(true, std::memory_order_release);
  }

  // ---- Under the progress lock.

  /// The buckets whose instance is published and not over, ascending, as far as collect_published() has been called;
  /// and those that the log has launched.
  std::vector<std::uint32_t>& active() { return active_; }
  const std::vector<std::uint32_t>& active() const { return active_; }
  /// Requires: the gate besides.
  void collect_published();
  /// Nothing is replayed any more, though buckets are in force. Requires: the gate besides.
  void stop();

 private:
  std::atomic<bool> replays_{false};
  std::atomic<bool> has_fresh_{false};
  std::vector<std::unique_ptr<BucketRun>> runs_;  ///< by bucket
  std::vector<std::uint32_t> fresh_;              ///< published since collect_published()
  std::vector<std::uint32_t> active_;
};

}  // namespace ronde::engine
