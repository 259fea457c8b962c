// Adasum all-reduce (reduce/adasum.h): each rank works on its slice of every tensor, for all ranks.
//
//     exchange   slice s of every rank's tensors to rank s (an all-to-all), widened to double
//     measure    the three products of each pair of the round, of this slice
//     tell       all ranks' products to all ranks (an all-gather), added in rank order: those of the whole tensors, the
//                same bits everywhere
//     combine    each pair's slices into one. The last three, once for each round of the tree
//     gather     the slices, rounded, to everybody (an all-gather)
//
// A rank moves 2 (p-1)/p N bytes, as all-reduces in two phases do, and computes (p-1)/p of what one pair would cost it
// alone; per round it waits once. It needs memory for 8 bytes an element, and the result's slices. Products are of one
// tensor each, so what is fused with it changes no bit of it.
//
// The three are operations of a backend one after the other, so what they promise of waiting holds for the whole.
#pragma once

#include <functional>
#include <memory>

#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// Begins a plan over the ranks in question, once the one before it is done. The plan outlives the operation.
using StartOperation = std::function<std::unique_ptr<Operation>(const Plan&)>;

/// All members. `start` begins all-to-alls and all-gathers over `size` ranks, of which this is `rank`. Requires: size >
/// 1, plan.bytes() > 0, adasum_supports(plan.dtype). `plan` must outlive the operation.
std::unique_ptr<Operation> adasum_allreduce(int rank, int size, StartOperation start, const Plan& plan);

}  // namespace ronde::collectives
