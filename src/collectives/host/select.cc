#include "collectives/host/select.h"

#include <algorithm>
#include <limits>

#include "collectives/host/allgather.h"
#include "collectives/host/alone.h"
#include "collectives/host/barrier.h"
#include "collectives/host/broadcast.h"
#include "collectives/host/one_shot.h"
#include "collectives/host/two_phase.h"

namespace ronde::collectives {

namespace {

// One shot reads p N bytes and waits once, two phases read less and wait twice; so the limit falls with p.
constexpr OneShotRule kOneShotRules[] = {
    {4, 8192},
    {8, 4096},
    {std::numeric_limits<int>::max(), 2048},
};

std::unique_ptr<Operation> start_allreduce(HostChannel& channel, const Plan& plan) {
  const std::size_t bytes = plan.bytes();
  if (channel.size() == 1 || bytes == 0) {
    return allreduce_alone(plan);
  }
  return bytes <= one_shot_limit(channel.size(), channel.slot_bytes()) ? one_shot_allreduce(channel, plan)
                                                                       : two_phase_allreduce(channel, plan);
}

}  // namespace

std::size_t one_shot_limit(int size, std::size_t slot_bytes) {
  const auto* rule = std::find_if(std::begin(kOneShotRules), std::end(kOneShotRules),
                                  [size](const OneShotRule& each) { return size <= each.ranks; });
  return std::min(rule->bytes, slot_bytes);
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
