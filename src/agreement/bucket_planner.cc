#include "agreement/bucket_planner.h"

#include <algorithm>

namespace ronde::agreement {

namespace {

/// Equal answers beyond those needed, after which a name is planned though requests are held.
constexpr std::uint32_t kExtraAnswers = 2;

}  // namespace

// ---- What happened

void BucketPlanner::on_exec(const std::string& name, const Descriptor& descriptor, const MemoryPlaces& places,
                            std::uint64_t asked, std::uint64_t answered, const std::string& planning_name,
                            std::uint32_t turn) {
  if (!is_plannable(descriptor) && names_.find(name) == nullptr) {
    return;  // never of any use, and numbered names never come again
  }
  NameHistory& history = names_.answered(name);
  history.planning_name = planning_name;
  history.turn = turn;
  if (!history.on_exec(descriptor, places, {asked, answered})) {
    buckets_.dissolve_of(history);
  }
  if (history.same == 1) {
    persistent_.on_first_answer(history);
  }
  buckets_.on_answer(history);
  consider_released();
  consider(history);
}

void BucketPlanner::on_other_calls(const std::string& name) {
  NameHistory* const history = names_.find(name);
  if (history == nullptr) {
    return;
  }
  history->on_other_calls();
  buckets_.on_answer(*history);
  if (history->never) {
    buckets_.dissolve_of(*history);
    consider_released();
  }
}

void BucketPlanner::on_error(const std::string& name) {
  if (NameHistory* const history = names_.find(name)) {  // a name that is planned has been answered before
    history->on_error();
    buckets_.on_answer(*history);
  }
}

void BucketPlanner::demote(const std::string& name) {
  NameHistory* const history = names_.find(name);
  if (history != nullptr && !history->alone) {
    history->alone = true;
    buckets_.dissolve_of(*history);
    consider_released();
  }
}

void BucketPlanner::plan_anew(const std::string& name) {
  if (NameHistory* const history = names_.find(name)) {
    history->begin_again();
    buckets_.dissolve_of(*history);
    consider_released();
  }
}

void BucketPlanner::on_prepared(std::uint32_t id) {
  buckets_.on_prepared(id);
  consider_released();
}

void BucketPlanner::refuse(std::uint32_t id) {
  buckets_.refuse(id);
  consider_released();
}

void BucketPlanner::on_epoch_over(bool healthy) {
  buckets_.on_epoch_over(healthy);
  consider_released();
  names_.on_break();
}

std::size_t BucketPlanner::count_use(const std::vector<std::uint32_t>& unused) {
  const std::size_t used = buckets_.count_use(unused, names_.order());
  consider_released();
  return used;
}

bool BucketPlanner::waits_for_phase(const std::string& name) const {
  const NameHistory* const history = names_.find(name);
  return history != nullptr && buckets_.waits_for_phase(*history);
}

// ---- What to do

bool BucketPlanner::may_be_planned(const NameHistory& history) {
  return history.bucket == NameHistory::kNoBucket && history.has_come_often() && is_plannable(history.descriptor);
}

void BucketPlanner::consider(NameHistory& history) {
  if (!history.is_candidate && may_be_planned(history)) {
    history.is_candidate = true;
    candidates_.push_back(&history);
  }
}

/// Names whose bucket has been retired.
void BucketPlanner::consider_released() {
  for (const PlannedBuckets::Released& released : buckets_.take_released()) {
    if (released.is_unused) {
      names_.forget(*released.history);
    } else {
      consider(*released.history);
    }
  }
}

std::vector<Bucket> BucketPlanner::propose(bool quiet) {
  std::vector<Bucket> made;
  for (const std::uint64_t plan : persistent_.take_complete()) {
    pack(persistent_.names_to_plan(plan), true, made);
  }
  pack(take_ready(quiet), false, made);
  return made;
}

/// The candidates that are not waited with.
std::vector<NameHistory*> BucketPlanner::take_ready(bool quiet) {
  const bool is_patience_over = std::any_of(candidates_.begin(), candidates_.end(), [this](const NameHistory* history) {
    return packing_.is_small(*history) && history->same >= history->answers_needed() + kExtraAnswers;
  });
  std::vector<NameHistory*> ready;
  std::erase_if(candidates_, [&](NameHistory* history) {
    const bool plannable = may_be_planned(*history);
    if (plannable && packing_.is_small(*history) && !quiet && !is_patience_over) {
      return false;  // its step is not over: more that belongs to it may come
    }
    history->is_candidate = false;
    if (plannable) {
      ready.push_back(history);
    }
    return true;
  });
  return ready;
}

void BucketPlanner::pack(std::vector<NameHistory*> names, bool are_together, std::vector<Bucket>& made) {
  for (const std::vector<NameHistory*>& packed : packing_.pack(std::move(names), are_together)) {
    made.push_back(buckets_.make(packed));
  }
}

}  // namespace ronde::agreement
