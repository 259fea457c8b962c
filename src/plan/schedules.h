// The schedules that Ronde's ranks of a cluster would carry out.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule.h"
#include "plan/cluster.h"

namespace ronde::plan {

collectives::RankLayout layout_of(const Cluster& cluster);

/// Of an all-reduce of so many bytes of float32, averaged, on one rank of several. `layout`: of the cluster.
std::unique_ptr<collectives::Schedule> schedule_of(int rank, const Cluster& cluster,
                                                   const collectives::RankLayout& layout, std::size_t bytes);

/// Bytes of values that a stage's work reads: those of a reduction's inputs, each counted.
double work_of(const collectives::Schedule& schedule, const collectives::Stage& stage);

}  // namespace ronde::plan
