// What one entry of the log has agreed on, as runs for the executor: plans with the tickets that have a tensor in them.
#pragma once

#include <vector>

#include "control/messages.h"
#include "engine/plans/executor.h"
#include "engine/requests/pending_table.h"
#include "engine/requests/ticket.h"
#include "types/group.h"

namespace ronde::engine {

/// The tickets of the items, in their order, with outputs of the size that was agreed; a joined ticket where this rank
/// has joined. `own`: this rank's number in the group. INTERNAL if nobody here holds an item. Throws std::bad_alloc.
Result<std::vector<TicketPtr>> tickets_of(const std::vector<control::ExecEntry::Item>& items,
                                          const PendingTable& pending, const Group& group, int own);
/// `tickets`: of the items, in their order; each knows afterwards how many plans it waits for. In the order in which
/// the plans are executed.
std::vector<PlanRun> make_plan_runs(const std::vector<control::ExecEntry::Item>& items,
                                    const std::vector<TicketPtr>& tickets, const control::SettingsEntry& settings,
                                    const Group& group);

}  // namespace ronde::engine
