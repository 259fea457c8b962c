#include "collectives/host/select.h"

#include <algorithm>

#include "collectives/host/allgather.h"
#include "collectives/host/alone.h"
#include "collectives/host/barrier.h"
#include "collectives/host/broadcast.h"
#include "collectives/host/direct.h"
#include "collectives/host/one_shot.h"
#include "collectives/host/two_phase.h"

namespace ronde::collectives {

namespace {

bool lies_in_heap(const Plan& plan) {
  return std::all_of(plan.members.begin(), plan.members.end(),
                     [](const PlanMember& member) { return member.shared_offset >= 0; });
}

std::unique_ptr<Operation> start_allreduce(HostChannel& channel, const Plan& plan) {
  const std::size_t bytes = plan.bytes();
  if (channel.size() == 1 || bytes == 0) {
    return allreduce_alone(plan);
  }
  if (lies_in_heap(plan)) {
    return direct_allreduce(channel, plan);
  }
  return bytes <= one_shot_limit(channel.thresholds(), channel.slot_bytes()) ? one_shot_allreduce(channel, plan)
                                                                             : two_phase_allreduce(channel, plan);
}

}  // namespace

std::size_t one_shot_limit(const Thresholds& thresholds, std::size_t slot_bytes) {
  return std::min(static_cast<std::size_t>(thresholds.one_shot), slot_bytes);
}

std::unique_ptr<Operation> start(HostChannel& channel, const Plan& plan) {
  switch (plan.kind) {
    case OpKind::allreduce: return start_allreduce(channel, plan);
    case OpKind::broadcast: return channel.size() == 1 ? copy_alone(plan) : staged_broadcast(channel, plan);
    case OpKind::allgather: return channel.size() == 1 ? copy_alone(plan) : staged_allgather(channel, plan);
    case OpKind::barrier: return flag_barrier(channel);
    default: return nullptr;
  }
}

}  // namespace ronde::collectives
