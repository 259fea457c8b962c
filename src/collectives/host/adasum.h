// Adasum all-reduce (reduce/adasum.h): each rank works on its slice of every tensor, for all ranks.
//
//     exchange   slice s of every rank's tensors to rank s (exchange.h), widened to double
//     measure    the three products of each pair of the round, of this slice
//     tell       all ranks' products to all ranks (allgather.h), added in rank order: those of the whole tensors, the
//                same bits everywhere
//     combine    each pair's slices into one. The last three, once for each round of the tree
//     gather     the slices, rounded, to everybody (allgather.h)
//
// A rank moves 2 (p-1)/p N bytes, as all-reduces in two phases do, and computes (p-1)/p of what one pair would cost it
// alone; per round it waits once. It needs memory for 8 bytes an element, and the result's slices. Products are of one
// tensor each, so what is fused with it changes no bit of it.
//
// The three are operations of the channel one after the other, so what they promise of waiting holds for the whole.
#pragma once

#include <memory>

#include "collectives/host/channel.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// All members. Requires: size() > 1, plan.bytes() > 0, adasum_supports(plan.dtype). `plan` must outlive the operation.
std::unique_ptr<Operation> adasum_allreduce(HostChannel& channel, const Plan& plan);

}  // namespace ronde::collectives
