#include "engine/plans/plan_runs.h"

#include <algorithm>
#include <utility>

#include "engine/plans/planner.h"
#include "engine/requests/joined_ticket.h"

namespace ronde::engine {

Result<std::vector<TicketPtr>> tickets_of(const std::vector<control::ExecEntry::Item>& items,
                                          const PendingTable& pending, const Group& group, int own) {
  std::vector<TicketPtr> tickets;
  for (const control::ExecEntry::Item& item : items) {
    // Where this rank has joined its name may still be in use here for something else: a recv, say, or a request that
    // is done and that nobody has waited for yet.
    TicketPtr ticket;
    if (item.is_own) {
      ticket = pending.find(item.name);
    } else if (item.descriptor) {
      ticket = make_joined_ticket(item.name, *item.descriptor, group.id);
    }
    if (!ticket) {
      return Status::error(Code::internal, "agreed on '" + item.name + "', which nobody here holds");
    }
    if (!item.rows.empty()) {
      RONDE_RETURN_IF_ERROR(ticket->make_outputs(item.rows, static_cast<std::size_t>(own), group.ranks.size()));
    }
    tickets.push_back(std::move(ticket));
  }
  return tickets;
}

std::vector<PlanRun> make_plan_runs(const std::vector<control::ExecEntry::Item>& items,
                                    const std::vector<TicketPtr>& tickets, const control::SettingsEntry& settings,
                                    const Group& group) {
  std::vector<Agreed> agreed;
  for (std::size_t i = 0; i < items.size(); ++i) {
    agreed.push_back({&tickets[i]->request(), items[i].rows, items[i].places});
  }
  std::vector<int> plans_of(tickets.size());
  std::vector<PlanRun> runs;
  for (PlannedWork& work : make_plans(agreed, settings, group)) {
    PlanRun run;
    run.plan = std::move(work.plan);
    for (std::size_t i = 0; i < work.owners.size(); ++i) {
      const std::size_t owner = work.owners[i];
      if (i == 0 || work.owners[i - 1] != owner) {
        run.owners.push_back(tickets[owner]);
        run.timeout = std::max(run.timeout, tickets[owner]->request().timeout);
        ++plans_of[owner];
      }
    }
    runs.push_back(std::move(run));
  }
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    tickets[i]->plans().expect(plans_of[i]);
  }
  return runs;
}

}  // namespace ronde::engine
