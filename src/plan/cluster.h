// Cluster: hosts of equally many ranks each, in order: all ranks of a host come before those of the next.
#pragma once

#include "collectives/schedule/message_limits.h"

namespace ronde::plan {

struct Cluster {
  int hosts = 1;
  int ranks_per_host = 1;
  collectives::messages::MessageLimits limits = {};  ///< of schedules: Ronde's own, or what others would do
  int ranks() const { return hosts * ranks_per_host; }
};

}  // namespace ronde::plan
