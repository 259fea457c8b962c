#include "engine/progress/timeline_recording.h"

#include <utility>

namespace ronde::engine {

TimelineRecording::TimelineRecording(int rank, int size, const Clock& clock, Observe observe)
    : rank_(rank), size_(size), clock_(clock), observe_(std::move(observe)) {}

void TimelineRecording::know_job_clock(const JobClock& clock) {
  std::lock_guard lock(mutex_);
  job_clock_ = clock;
}

Status TimelineRecording::start(const std::string& path, bool mark_cycles) {
  std::lock_guard lock(mutex_);
  if (path.empty()) {
    return Status::error(Code::invalid_argument, "the timeline needs the path of a file to write");
  }
  if (timeline_) {
    return Status::error(Code::invalid_argument, "a timeline is being written to '" + timeline_->path() +
                                                     "' already; stop it before another is started");
  }
  if (ended_) {
    return Status::error(Code::not_initialized, "the engine has shut down; call init again");
  }
  RONDE_ASSIGN_OR_RETURN(timeline_, observe::Timeline::start(observe::timeline_path(path, rank_),
                                                             {rank_, size_, mark_cycles, job_clock_}, clock_.now()));
  observe_(timeline_.get());
  return {};
}

Status TimelineRecording::stop() {
  if (detach()) {
    return {};
  }
  return Status::error(Code::invalid_argument, "no timeline is being written; start one first");
}

void TimelineRecording::end() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  detach();
}

/// What comes back has its last event, and ends the file when it goes.
std::unique_ptr<observe::Timeline> TimelineRecording::detach() {
  std::lock_guard lock(mutex_);
  if (timeline_) {
    observe_(nullptr);
    timeline_->stop(clock_.now());
  }
  return std::exchange(timeline_, nullptr);
}

}  // namespace ronde::engine
