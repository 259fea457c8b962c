// Which algorithm a plan takes among the ranks of one host. Who adds an operation adds a row to select.cc.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/shm/channel.h"
#include "types/operation.h"
#include "types/plan.h"
#include "types/thresholds.h"

namespace ronde::collectives {

/// Whether there is an algorithm for it here.
bool has_algorithm(OpKind kind);

/// What the plan's algorithm puts into one staging slot at most: of those that fill a slot from its beginning all that
/// they move, where that is little; of the others the whole, SIZE_MAX. Requires: has_algorithm().
std::size_t slot_bytes_of(const Plan& plan);

/// An all-reduce of private tensors through the channel's slots: in one shot or in two phases, by the thresholds, which
/// must be the same on every rank. Requires: size() > 1, plan.bytes() > 0. `plan` must outlive the operation.
std::unique_ptr<Operation> staged_allreduce(HostChannel& channel, const Plan& plan, const Thresholds& thresholds);

/// Begins a plan over the whole host; `plan` and `channel` must outlive the operation. Every rank must begin the same
/// plans in the same order by the same thresholds, each after the last is done. Requires: has_algorithm(); of what
/// reduces, reduce::supports() its type and operation.
std::unique_ptr<Operation> start(HostChannel& channel, const Plan& plan, const Thresholds& thresholds);

}  // namespace ronde::collectives
