// ClockOffset: how far another host's clock is behind this one's, found by echoes.
#pragma once

#include "base/clock.h"

namespace ronde {

/// Of one host. Clocks are monotonic, and run equally fast.
class ClockOffset {
 public:
  /// An echo has come `now`: this host had sent it at `sent`, and the other one has read `there` on its clock between
  /// those moments. Of all echoes that which came back fastest counts: its moment is known best.
  void note_echo(Nanoseconds sent, Nanoseconds there, Nanoseconds now) {
    if (now - sent < best_round_) {
      best_round_ = now - sent;
      behind_ = sent + best_round_ / 2 - there;
    }
  }
  /// The other host's moment, as this host's clock has it; before any echo the moment itself.
  Nanoseconds here(Nanoseconds there) const { return there + behind_; }
  /// How long the fastest echo was on its way: here() is wrong by half of it at most. kNever before any.
  Nanoseconds round() const { return best_round_; }

 private:
  Nanoseconds behind_ = 0;
  Nanoseconds best_round_ = kNever;
};

}  // namespace ronde
