// Which algorithm a plan takes among the ranks of one host.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/host/channel.h"
#include "collectives/host/table.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// The largest plan that is done in one shot with these thresholds and slots.
std::size_t one_shot_limit(const Thresholds& thresholds, std::size_t slot_bytes);

/// Begins a plan over the whole host; `plan` and `channel` must outlive the operation. Every rank must begin the same
/// plans in the same order, each after the last is done. Null for a kind that has no algorithm here. Requires: for an
/// all-reduce, reduce::supports() its type and operation.
std::unique_ptr<Operation> start(HostChannel& channel, const Plan& plan);

}  // namespace ronde::collectives
