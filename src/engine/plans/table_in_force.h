// TableInForce: the row of thresholds that this rank has read last in the log, for whoever asks. Plans and buckets take
// rows in the order of the log, not from here (executor.h, replay_actions.h).
#pragma once

#include <mutex>

#include "types/thresholds.h"

namespace ronde::engine {

/// Any thread.
class TableInForce {
 public:
  /// `first`: what all ranks begin with.
  explicit TableInForce(const Thresholds& first) : row_(first) {}

  void set(const Thresholds& row) {
    std::lock_guard lock(mutex_);
    row_ = row;
  }
  Thresholds get() const {
    std::lock_guard lock(mutex_);
    return row_;
  }

 private:
  mutable std::mutex mutex_;
  Thresholds row_;  ///< guarded by mutex_
};

}  // namespace ronde::engine
