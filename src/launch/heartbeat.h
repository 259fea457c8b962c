// Heartbeat: when the launcher has to send a host its next beat, and whether that host still answers. A pure state
// machine of (events, time).
#pragma once

#include "base/clock.h"
#include "launch/agent.h"

namespace ronde::launch {

/// How long a host may be silent before it counts as lost. An agent echoes a beat a second, at once.
inline constexpr Nanoseconds kHostSilence = 10 * kSecond;

/// Of one host. All moments are of one clock and never go back.
class Heartbeat {
 public:
  /// A launcher that has not looked for so long was stopped itself, so the silence is not the host's.
  static constexpr Nanoseconds kOwnPause = 3 * kSecond;

  explicit Heartbeat(Nanoseconds now) : heard_(now), last_look_(now) {}

  /// From now on beats are sent; the first is due at once.
  void start(Nanoseconds now) { next_beat_ = now; }
  /// The launcher looks for what has come: to be called at each look, before what came is noted.
  void look(Nanoseconds now);
  /// Something has come, or the launcher does not listen now, so that nothing can.
  void note_heard(Nanoseconds now) { heard_ = now; }

  /// Whether the host has been silent for too long.
  bool is_lost(Nanoseconds now) const { return now >= lost_at(); }
  /// The moment from which it would be lost, if nothing came until then.
  Nanoseconds lost_at() const { return later(heard_, kHostSilence); }
  /// Whether a beat has to be sent now. If so, the next is due a kBeat later.
  bool take_beat(Nanoseconds now);
  /// When take_beat() has to be asked next; kNever before start().
  Nanoseconds next_beat() const { return next_beat_; }

 private:
  Nanoseconds heard_;
  Nanoseconds last_look_;
  Nanoseconds next_beat_ = kNever;
};

}  // namespace ronde::launch
