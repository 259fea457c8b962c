// Which schedule a plan takes that travels as messages. Who adds an operation adds a row to select.cc.
#pragma once

#include <memory>

#include "collectives/schedule/message_channel.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives::messages {

/// Whether there is a schedule for it.
bool has_schedule(OpKind kind);

/// Begins a plan; `plan` and `channel` must outlive the operation. Every rank must begin the same plans in the same
/// order, each after the last is done. Requires: has_schedule(); of what reduces, reduce::supports() its type and
/// operation.
std::unique_ptr<Operation> start(MessageChannel& channel, const Plan& plan);

}  // namespace ronde::collectives::messages
