// TableInForce: the row of thresholds that this rank has read last in the log, for whoever asks. Plans and buckets take
// rows in the order of the log, not from here (executor.h, replay_actions.h).
#pragma once

#include <mutex>
#include <optional>

#include "backend/backend.h"
#include "types/thresholds.h"

namespace ronde::engine {

/// Any thread.
class TableInForce {
 public:
  /// `backend`, which must outlive this, has the row that all ranks begin with: one that may come later than this.
  explicit TableInForce(const backend::Backend& backend) : backend_(backend) {}

  void set(const Thresholds& row) {
    std::lock_guard lock(mutex_);
    row_ = row;
  }
  Thresholds get() const {
    std::lock_guard lock(mutex_);
    return row_ ? *row_ : backend_.first_thresholds();
  }

 private:
  const backend::Backend& backend_;
  mutable std::mutex mutex_;
  std::optional<Thresholds> row_;  ///< guarded by mutex_; none: the log has said nothing yet
};

}  // namespace ronde::engine
