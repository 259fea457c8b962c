#include "collectives/shm/select.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <iterator>

#include "base/round_up.h"
#include "collectives/adasum.h"
#include "collectives/shm/allgather.h"
#include "collectives/shm/barrier.h"
#include "collectives/shm/broadcast.h"
#include "collectives/shm/direct.h"
#include "collectives/shm/exchange.h"
#include "collectives/shm/one_shot.h"
#include "collectives/shm/scan.h"
#include "collectives/shm/two_phase.h"
#include "collectives/single_rank.h"

namespace ronde::collectives {

namespace {

std::unique_ptr<Operation> allreduce(HostChannel& channel, const Plan& plan, const Thresholds& thresholds) {
  if (plan.bytes() == 0) {
    return allreduce_of_single_rank(plan);
  }
  if (plan.reduce_op == ReduceOp::adasum) {
    return adasum_allreduce(
        channel.rank(), channel.size(),
        [&channel, thresholds](const Plan& part) { return start(channel, part, thresholds); }, plan);
  }
  if (plan.is_shared()) {
    return direct_allreduce(channel, plan);
  }
  return staged_allreduce(channel, plan, thresholds);
}

/// How an algorithm uses a staging slot.
enum class Slots {
  none,
  from_beginning,  ///< as far as there is something
  whole,           ///< cut into parts
};

Slots slots_of_allreduce(const Plan& plan) {
  return plan.reduce_op == ReduceOp::adasum ? Slots::whole : plan.is_shared() ? Slots::none : Slots::from_beginning;
}

/// An algorithm that has no thresholds.
template <std::unique_ptr<Operation> (*kStart)(HostChannel&, const Plan&)>
std::unique_ptr<Operation> by_plan(HostChannel& channel, const Plan& plan, const Thresholds&) {
  return kStart(channel, plan);
}

std::unique_ptr<Operation> barrier(HostChannel& channel, const Plan&) { return flag_barrier(channel); }

struct Algorithm {
  OpKind kind;
  std::unique_ptr<Operation> (*start)(HostChannel&, const Plan&, const Thresholds&);
  std::unique_ptr<Operation> (*alone)(const Plan&);  ///< in a world of one rank; null: as in any
  Slots slots;
};

constexpr Algorithm kAlgorithms[] = {
    {OpKind::allreduce, allreduce, allreduce_of_single_rank,
     Slots::from_beginning},  // or as slots_of_allreduce() has it
    {OpKind::broadcast, by_plan<staged_broadcast>, copy_of_single_rank, Slots::from_beginning},
    {OpKind::allgather, by_plan<staged_allgather>, copy_of_single_rank, Slots::from_beginning},
    {OpKind::alltoall, by_plan<staged_alltoall>, copy_of_single_rank, Slots::whole},
    {OpKind::gather, by_plan<staged_gather>, copy_of_single_rank, Slots::whole},
    {OpKind::scatter, by_plan<staged_scatter>, copy_of_single_rank, Slots::whole},
    {OpKind::reduce, by_plan<staged_reduce>, allreduce_of_single_rank, Slots::whole},
    {OpKind::reducescatter, by_plan<staged_reducescatter>, allreduce_of_single_rank, Slots::whole},
    {OpKind::barrier, by_plan<barrier>, nullptr, Slots::none},
    {OpKind::scan, by_plan<staged_scan>, allreduce_of_single_rank, Slots::from_beginning},
    {OpKind::exscan, by_plan<staged_exscan>, exscan_of_single_rank, Slots::from_beginning},
};

const Algorithm* find(OpKind kind) {
  const auto* const found = std::find_if(std::begin(kAlgorithms), std::end(kAlgorithms),
                                         [kind](const Algorithm& algorithm) { return algorithm.kind == kind; });
  return found == std::end(kAlgorithms) ? nullptr : found;
}

}  // namespace

bool has_algorithm(OpKind kind) { return find(kind) != nullptr; }

std::size_t slot_bytes_of(const Plan& plan) {
  assert(has_algorithm(plan.kind));
  const Slots slots = plan.kind == OpKind::allreduce ? slots_of_allreduce(plan) : find(plan.kind)->slots;
  if (slots != Slots::from_beginning) {
    return slots == Slots::none ? 0 : SIZE_MAX;
  }
  std::size_t bytes = 0;
  for (const PlanMember& member : plan.members) {
    bytes += round_up(member.input.bytes() + member.output.bytes(), transport::kLineBytes);
  }
  return bytes;
}

std::unique_ptr<Operation> staged_allreduce(HostChannel& channel, const Plan& plan, const Thresholds& thresholds) {
  return plan.bytes() <= thresholds.one_shot ? one_shot_allreduce(channel, plan, thresholds)
                                             : two_phase_allreduce(channel, plan, thresholds);
}

std::unique_ptr<Operation> start(HostChannel& channel, const Plan& plan, const Thresholds& thresholds) {
  assert(has_algorithm(plan.kind));
  const Algorithm& algorithm = *find(plan.kind);
  return channel.size() == 1 && algorithm.alone != nullptr ? algorithm.alone(plan)
                                                           : algorithm.start(channel, plan, thresholds);
}

}  // namespace ronde::collectives
