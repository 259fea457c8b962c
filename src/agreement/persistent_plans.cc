#include "agreement/persistent_plans.h"

#include <algorithm>
#include <utility>

#include "agreement/bucket_packing.h"

namespace ronde::agreement {

void PersistentPlans::on_first_answer(NameHistory& history) {
  const PlannedGroup& mark = history.descriptor.planned_group;
  if (mark.id == 0) {
    return;
  }
  Plan& plan = plans_[mark.id];
  plan.size = mark.size;
  history.is_persistent = true;
  if (std::find(plan.names.begin(), plan.names.end(), &history) == plan.names.end()) {
    plan.names.push_back(&history);
  }
  if (plan.names.size() == plan.size) {
    complete_.push_back(mark.id);
  }
}

std::vector<std::uint64_t> PersistentPlans::take_complete() { return std::exchange(complete_, {}); }

std::vector<NameHistory*> PersistentPlans::names_to_plan(std::uint64_t plan) const {
  std::vector<NameHistory*> names;
  std::uint64_t rounds = 0;
  for (NameHistory* history : plans_.at(plan).names) {
    if (history->descriptor.planned_group.id != plan) {
      return {};
    }
    const std::uint64_t answers = history->answers - history->before_mark;
    rounds = rounds == 0 ? answers : rounds;
    if (answers != rounds) {
      return {};
    }
    const bool is_trusted = history->same > 0 && !history->has_changed_often();
    if (history->bucket == NameHistory::kNoBucket && !history->never && is_trusted &&
        is_plannable(history->descriptor)) {
      names.push_back(history);
    }
  }
  return names;
}

}  // namespace ronde::agreement
