// Two phases: the tensor is cut into chunks, and each chunk into slices that have an owner each.
//
//     all-reduce  phase 1 of a chunk: every rank sends slice j to rank j, which reduces what comes in rank order
//                 phase 2: every rank sends its reduced slice to everybody
//     broadcast   phase 1 of a chunk: the root sends slice j to the j-th of the others
//                 phase 2: each of the others sends its slice to the rest of them
//
// Direct reduce-scatter and all-gather, scatter and all-gather (Thakur, Rabenseifner and Gropp, "Optimization of
// Collective Communication Operations in MPICH", 2005, without the halving): of an all-reduce each rank sends 2 (p-1)/p
// N bytes, of a broadcast the root N and each other (p-2)/(p-1) N, in two turns whatever the number of ranks. Each
// value is reduced once, in rank order, so every rank has the same bits, and those of every other way.
//
// When each phase of a chunk comes is two_phase_order.h's.
//
// Where the memory lies. List 0 goes from the inputs to the outputs, list 1 from the outputs to themselves: a rank's
// own slice is reduced into its place in the output, and sent from there. In place nothing is lost by it: slice j of an
// input is written once rank j's reduced slice has come, and that one rank j has only made with this rank's input.
#pragma once

#include <memory>

#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// `bytes`: of the whole tensor, more than 0; `slice`: of a message at most, a multiple of 128. In stage 0 every rank
/// sends each other a message, be it empty. Requires: ranks > 1.
std::unique_ptr<Schedule> two_phase_allreduce_schedule(int rank, int ranks, std::size_t bytes, std::size_t slice);

std::unique_ptr<Schedule> two_phase_broadcast_schedule(int rank, int ranks, int root, std::size_t bytes,
                                                       std::size_t slice);

}  // namespace ronde::collectives
