#include "collectives/host/select.h"

#include "collectives/host/adasum.h"
#include "collectives/host/allgather.h"
#include "collectives/host/alone.h"
#include "collectives/host/barrier.h"
#include "collectives/host/broadcast.h"
#include "collectives/host/direct.h"
#include "collectives/host/exchange.h"
#include "collectives/host/one_shot.h"
#include "collectives/host/two_phase.h"

namespace ronde::collectives {

namespace {

std::unique_ptr<Operation> start_allreduce(HostChannel& channel, const Plan& plan) {
  if (channel.size() == 1 || plan.bytes() == 0) {
    return allreduce_alone(plan);
  }
  if (plan.reduce_op == ReduceOp::adasum) {
    return adasum_allreduce(channel, plan);
  }
  if (plan.is_shared()) {
    return direct_allreduce(channel, plan);
  }
  return staged_allreduce(channel, plan);
}

}  // namespace

std::unique_ptr<Operation> staged_allreduce(HostChannel& channel, const Plan& plan) {
  return plan.bytes() <= channel.thresholds().one_shot ? one_shot_allreduce(channel, plan)
                                                       : two_phase_allreduce(channel, plan);
}

std::unique_ptr<Operation> start(HostChannel& channel, const Plan& plan) {
  switch (plan.kind) {
    case OpKind::allreduce: return start_allreduce(channel, plan);
    case OpKind::broadcast: return channel.size() == 1 ? copy_alone(plan) : staged_broadcast(channel, plan);
    case OpKind::allgather: return channel.size() == 1 ? copy_alone(plan) : staged_allgather(channel, plan);
    case OpKind::alltoall: return channel.size() == 1 ? copy_alone(plan) : staged_alltoall(channel, plan);
    case OpKind::gather: return channel.size() == 1 ? copy_alone(plan) : staged_gather(channel, plan);
    case OpKind::scatter: return channel.size() == 1 ? copy_alone(plan) : staged_scatter(channel, plan);
    case OpKind::reduce: return channel.size() == 1 ? allreduce_alone(plan) : staged_reduce(channel, plan);
    case OpKind::reducescatter:
      return channel.size() == 1 ? allreduce_alone(plan) : staged_reducescatter(channel, plan);
    case OpKind::barrier: return flag_barrier(channel);
    default: return nullptr;
  }
}

}  // namespace ronde::collectives
