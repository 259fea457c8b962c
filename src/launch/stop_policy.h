// When which signal is sent to the ranks: a pure state machine of (events, time).
//
//   running --failure--> ending --grace--> terminating --grace--> killing
//      |                    |                ^    (SIGTERM)         ^   (SIGKILL)
//      +------SIGINT--------+--> interrupted +--------second--------+
//      |                         (SIGINT)      grace        SIGINT
//      +------SIGTERM, SIGHUP--> terminating
//
// After a failure the others get a grace in which no signal is sent: they see the death by themselves and report it.
// SIGTERM twice is no impatience: `timeout` and batch systems send it to the launcher and to its group at once. For
// the same reason a second SIGINT right after the first is taken for the same key press (a wrapper passed it on).
#pragma once

#include "base/clock.h"

namespace ronde::launch {

class StopPolicy {
 public:
  explicit StopPolicy(Nanoseconds grace) : grace_(grace) {}

  /// A rank failed.
  void failure(Nanoseconds now);
  /// A rank could not be started: there is no job to be orderly about.
  void start_failure();
  /// The launcher received SIGINT, SIGTERM, SIGHUP or another that means stop.
  void stop_signal(int signal, Nanoseconds now);

  /// The signal to send to all ranks now, 0 if none; each is told once. Call until 0.
  int due(Nanoseconds now);
  /// When due() has to be asked next; kNever if only events matter.
  Nanoseconds next_deadline() const { return deadline_; }

  /// The first stop signal, 0 if none came.
  int stopped_by() const { return stopped_by_; }
  Nanoseconds stopped_at() const { return stopped_at_; }

  static constexpr Nanoseconds kSameKeyPress = 200 * kMillisecond;

 private:
  enum class Phase { running, ending, interrupted, terminating, killing };

  void enter(Phase phase, int signal, Nanoseconds deadline);

  Nanoseconds grace_;
  Phase phase_ = Phase::running;
  int pending_ = 0;  ///< entered its phase, not told yet
  Nanoseconds deadline_ = kNever;
  int stopped_by_ = 0;
  Nanoseconds stopped_at_ = 0;
  Nanoseconds last_interrupt_ = 0;
};

}  // namespace ronde::launch
