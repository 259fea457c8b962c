// The runner's timeline: which file it is written to, and since when.
#include <utility>

#include "engine/runner.h"

namespace ronde::engine {

Status Runner::start_timeline(const std::string& path, bool mark_cycles) {
  std::lock_guard lock(timeline_mutex_);
  if (path.empty()) {
    return Status::error(Code::invalid_argument, "the timeline needs the path of a file to write");
  }
  if (timeline_) {
    return Status::error(Code::invalid_argument, "a timeline is being written to '" + timeline_->path() +
                                                     "' already; stop it before another is started");
  }
  if (left_.load()) {
    return Status::error(Code::not_initialized, "the engine has shut down; call init again");
  }
  const Topology& topology = engine_->topology();
  RONDE_ASSIGN_OR_RETURN(timeline_,
                         observe::Timeline::start(observe::timeline_path(path, topology.rank),
                                                  {topology.rank, topology.size, mark_cycles}, clock_.now()));
  std::lock_guard step_lock(step_mutex_);
  engines_.observe(timeline_.get());
  return {};
}

Status Runner::stop_timeline() {
  if (detach_timeline()) {
    return {};
  }
  return Status::error(Code::invalid_argument, "no timeline is being written; start one first");
}

/// What comes back has its last event, and ends the file when it goes.
std::unique_ptr<observe::Timeline> Runner::detach_timeline() {
  std::lock_guard lock(timeline_mutex_);
  std::lock_guard step_lock(step_mutex_);
  if (timeline_) {
    engines_.observe(nullptr);
    timeline_->stop(clock_.now());
  }
  return std::exchange(timeline_, nullptr);
}

}  // namespace ronde::engine
