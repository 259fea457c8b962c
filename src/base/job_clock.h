// JobClock: how the monotonic clock of a rank's host stands to that of one host of the job, which is the same for all
// ranks: where their store is served.
#pragma once

#include <string>

#include "base/clock.h"

namespace ronde {

struct JobClock {
  std::string boot;        ///< boot_id() of the host whose clock is the job's; empty: not known
  Nanoseconds behind = 0;  ///< what is added to this host's moments to have the job's clock's
  Nanoseconds within = 0;  ///< `behind` is wrong by so much at most, but for how far the clocks run apart later
};

}  // namespace ronde
