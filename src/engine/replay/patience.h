// Patience: how long one bucket of this rank waits, for the rest of its own requests and for the peers, before its
// requests had better be with the coordinator, who knows limits, reports stalls and can tell a rank that is late from a
// tensor that is missing. Safety rests on none of this: a break may come at any moment.
//
// A bucket that is half full while somebody waits for a part of it waits 2 ms, or eight times as long as it usually
// takes to get full: the rest of it may not be coming in this step. One that is full here and not everywhere waits a
// second at first, so that what else is in the epoch is not held up for ever, and each time twice as long, up to 64 s:
// ranks may be late in every step for reasons of their own. That is forgotten once several instances have gone by
// quickly: a wait after that has another cause, which may last for ever.
#pragma once

#include <cstdint>

#include "agreement/mode.h"
#include "base/clock.h"

namespace ronde::engine {

class Patience {
 public:
  /// Of a bucket of several requests: the first one of an instance has come.
  void begun(Nanoseconds now) { filling_since_ = now; }
  /// The last one of the instance has come.
  void filled(Nanoseconds now);
  /// Another epoch.
  void restart() { since_ = 0, seen_instance_ = 0; }

  /// At each look at the instance, which is under way: how long it has been since the first.
  Nanoseconds waited(std::uint64_t instance, Nanoseconds now);
  /// Whether that is too long, and why; Reason::none if not. `is_wanted`: somebody waits for one of its requests.
  /// `stall`: after so long a stall is reported, which needs the coordinator; 0: never. Requires: waited() at this
  /// look.
  agreement::Reason judge(Nanoseconds now, bool is_half_full, bool is_wanted, Nanoseconds stall);

 private:
  Nanoseconds since_ = 0;            ///< the first look at the instance
  Nanoseconds wanted_since_ = 0;     ///< the first that saw it half full and somebody waiting for a part of it
  Nanoseconds filling_since_ = 0;    ///< when its first request came
  Nanoseconds usual_fill_ = 0;       ///< how long it takes to get full
  Nanoseconds with_peers_ = 0;       ///< how long a full one waits for them
  std::uint64_t seen_instance_ = 0;  ///< that since_ speaks of
};

}  // namespace ronde::engine
