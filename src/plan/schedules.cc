#include "plan/schedules.h"

#include <vector>

#include "collectives/schedule/allreduce_way.h"

namespace ronde::plan {

collectives::RankLayout layout_of(const Cluster& cluster) {
  std::vector<int> first_of;
  for (int rank = 0; rank < cluster.ranks(); ++rank) {
    first_of.push_back(rank / cluster.ranks_per_host * cluster.ranks_per_host);
  }
  return collectives::RankLayout(first_of);
}

std::unique_ptr<collectives::Schedule> schedule_of(int rank, const Cluster& cluster,
                                                   const collectives::RankLayout& layout, std::size_t bytes) {
  const reduce::Reduction average{DType::float32, ReduceOp::average};
  return std::move(collectives::messages::allreduce_way(rank, layout, cluster.limits, bytes, average).schedule);
}

double work_of(const collectives::Schedule& schedule, const collectives::Stage& stage) {
  using collectives::Work;
  const auto bytes = static_cast<double>(stage.own.bytes() + stage.rest.bytes());
  switch (stage.work) {
    case Work::none: return 0;
    case Work::carry_over:
    case Work::copy_to_scratch:
    case Work::put_gathered:
    case Work::empty: return bytes;
    case Work::reduce:
    case Work::add_to_scratch:
    case Work::reduce_gathered:
    case Work::reduce_to_scratch:
    case Work::reduce_from_scratch: return bytes * static_cast<double>(schedule.inputs(stage.combination).size());
  }
  return 0;
}

}  // namespace ronde::plan
