#include "launch/stop_policy.h"

#include <signal.h>

#include <utility>

namespace ronde::launch {

void StopPolicy::enter(Phase phase, int signal, Nanoseconds deadline) {
  phase_ = phase;
  pending_ = signal;
  deadline_ = deadline;
}

void StopPolicy::failure(Nanoseconds now) {
  if (phase_ == Phase::running) {
    enter(Phase::ending, 0, later(now, grace_));
  }
}

void StopPolicy::start_failure() { enter(Phase::killing, SIGKILL, kNever); }

void StopPolicy::stop_signal(int signal, Nanoseconds now) {
  if (stopped_by_ == 0) {
    stopped_by_ = signal;
    stopped_at_ = now;
  }
  const bool fresh = phase_ == Phase::running || phase_ == Phase::ending;
  if (signal != SIGINT) {
    if (fresh || phase_ == Phase::interrupted) {
      enter(Phase::terminating, SIGTERM, later(now, grace_));
    }
    return;
  }
  const bool repeated = last_interrupt_ != 0 && now - last_interrupt_ < kSameKeyPress;
  const bool first = last_interrupt_ == 0;
  last_interrupt_ = now;
  if (fresh) {
    enter(Phase::interrupted, SIGINT, later(now, grace_));
  } else if (!first && !repeated && phase_ != Phase::killing) {
    enter(Phase::killing, SIGKILL, kNever);
  }
}

int StopPolicy::due(Nanoseconds now) {
  if (pending_ != 0) {
    return std::exchange(pending_, 0);
  }
  if (now < deadline_) {
    return 0;
  }
  if (phase_ == Phase::terminating) {
    enter(Phase::killing, SIGKILL, kNever);
  } else {
    enter(Phase::terminating, SIGTERM, later(now, grace_));
  }
  return std::exchange(pending_, 0);
}

}  // namespace ronde::launch
