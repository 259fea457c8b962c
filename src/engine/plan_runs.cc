#include "engine/plan_runs.h"

#include <algorithm>
#include <utility>

#include "engine/planner.h"

namespace ronde::engine {

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
    tickets[i]->expect_plans(plans_of[i]);
  }
  return runs;
}

}  // namespace ronde::engine
