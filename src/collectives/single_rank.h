// The collectives of a world of one rank: nobody to wait for, but scales still apply.
#pragma once

#include <memory>

#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// output = reduction of the one input: prescale, average over 1 and postscale, with the arithmetic of every size.
std::unique_ptr<Operation> allreduce_of_single_rank(const Plan& plan);
/// output = input, for broadcast and allgather.
std::unique_ptr<Operation> copy_of_single_rank(const Plan& plan);
/// The neutral value in all outputs: the exclusive scan of one rank, or of the first of several.
std::unique_ptr<Operation> exscan_of_single_rank(const Plan& plan);

}  // namespace ronde::collectives
