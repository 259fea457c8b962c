// Cluster: hosts of equally many ranks each, in order: all ranks of a host come before those of the next.
#pragma once

#include "collectives/schedule/message_limits.h"

namespace ronde::plan {

struct Cluster {
  int hosts = 1;
  int ranks_per_host = 1;
  collectives::messages::MessageLimits limits =
      {};  ///< in force on all ranks; Ronde's own where RONDE_TABLE has no others
  int ranks() const { return hosts * ranks_per_host; }
};

}  // namespace ronde::plan
