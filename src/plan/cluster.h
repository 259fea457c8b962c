// Cluster: hosts of equally many ranks each, in order: all ranks of a host come before those of the next.
#pragma once

namespace ronde::plan {

struct Cluster {
  int hosts = 1;
  int ranks_per_host = 1;
  int ranks() const { return hosts * ranks_per_host; }
};

}  // namespace ronde::plan
