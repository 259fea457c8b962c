// Pacing: how long a driver polls before it sleeps, and how often an attentive engine thread looks (attention.h).
#pragma once

#include "base/clock.h"

namespace ronde::engine {

/// What follows from how many ranks share how many cores.
struct Pacing {
  Nanoseconds spin_for = 0;   ///< how long a driver that finds nothing polls without giving up its core
  Nanoseconds yield_for = 0;  ///< how long it then gives its core away between looks, before it sleeps
  Nanoseconds attention = 0;  ///< how often an attentive engine thread looks

  static Pacing of(int ranks, double cores);
};

}  // namespace ronde::engine
