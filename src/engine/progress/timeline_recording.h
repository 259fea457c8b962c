// TimelineRecording: which file the timeline is written to, if it is, and since when. A program starts and stops it
// while the engines work.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/job_clock.h"
#include "base/status.h"
#include "observe/timeline.h"

namespace ronde::engine {

/// Any thread.
class TimelineRecording {
 public:
  using Observe = std::function<void(observe::Observer*)>;

  /// `observe`: makes the engines tell this observer what happens, nobody if it is null, and returns once they do; it
  /// takes the progress lock. `clock` must outlive this.
  TimelineRecording(int rank, int size, const Clock& clock, Observe observe);

  /// What timelines that are started later say of this host's clock.
  void know_job_clock(const JobClock& clock);
  /// All that happens is written to `path` (timeline_path() of this rank) from now on, until stop() or end().
  /// INVALID_ARGUMENT while one is written, SYSTEM_ERROR naming the file if it cannot be, NOT_INITIALIZED after end().
  Status start(const std::string& path, bool mark_cycles);
  /// The file is complete then. INVALID_ARGUMENT if none is written.
  Status stop();
  /// As stop(), if one is written; none is from now on.
  void end();

 private:
  std::unique_ptr<observe::Timeline> detach();

  const int rank_;
  const int size_;
  const Clock& clock_;
  const Observe observe_;
  std::mutex mutex_;                             ///< one start or stop at a time; taken before the progress lock
  JobClock job_clock_;                           ///< guarded by mutex_
  bool ended_ = false;                           ///< guarded by mutex_
  std::unique_ptr<observe::Timeline> timeline_;  ///< guarded by mutex_
};

}  // namespace ronde::engine
