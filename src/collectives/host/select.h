// Which algorithm a plan takes among the ranks of one host.
#pragma once

#include <memory>

#include "collectives/host/channel.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// An all-reduce of private tensors through the channel's slots: in one shot or in two phases, by the channel's
/// thresholds. Requires: size() > 1, plan.bytes() > 0. `plan` must outlive the operation.
std::unique_ptr<Operation> staged_allreduce(HostChannel& channel, const Plan& plan);

/// Begins a plan over the whole host; `plan` and `channel` must outlive the operation. Every rank must begin the same
/// plans in the same order, each after the last is done. Null for a kind that has no algorithm here. Requires: for an
/// all-reduce, reduce::supports() its type and operation.
std::unique_ptr<Operation> start(HostChannel& channel, const Plan& plan);

}  // namespace ronde::collectives
