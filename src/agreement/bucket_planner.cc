#include "agreement/bucket_planner.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "agreement/traps.h"

namespace ronde::agreement {

namespace {

/// What replay can do: any reduction of tensors of one type. Everything else stays in negotiation.
bool is_plannable(const Descriptor& descriptor) {
  return descriptor.kind == OpKind::allreduce && descriptor.reduce_op != ReduceOp::adasum &&
         !descriptor.tensors.empty() &&
         std::all_of(descriptor.tensors.begin(), descriptor.tensors.end(),
                     [&](const Descriptor::Spec& spec) { return spec.dtype == descriptor.tensors.front().dtype; });
}

/// Names with equal keys may share a bucket: reduced alike, and of one class to their backend.
using FusionKey = std::tuple<ReduceOp, DType, double, double, int>;

FusionKey fusion_key(const Descriptor& descriptor, int fusion_class) {
  return {descriptor.reduce_op, descriptor.tensors.front().dtype, descriptor.prescale, descriptor.postscale,
          fusion_class};
}

}  // namespace

// ---- What happened

void BucketPlanner::on_exec(const std::string& name, const Descriptor& descriptor, const MemoryPlaces& places,
                            std::uint64_t asked, std::uint64_t answered, const std::string& planning_name,
                            std::uint32_t turn) {
  if (!is_plannable(descriptor) && !names_.contains(name)) {
    return;  // never of any use, and numbered names never come again
  }
  if (names_.size() >= forget_at_) {
    forget_names_that_came_once();
  }
  const auto found = names_.try_emplace(name).first;
  History& history = found->second;
  history.planning_name = planning_name;
  history.turn = turn;
  const bool equal = history.known && history.descriptor == descriptor && history.places == places;
  if (!equal) {
    history.changes += history.known ? 1 : 0;
    history.known = true;
    history.same = 0;
    history.before_mark = history.answers;
    history.descriptor = descriptor;
    history.places = places;
    if (history.bucket != kNone) {
      dissolve(history.bucket);
    }
  }
  ++history.same;
  ++history.answers;
  ++history.since_break;
  history.order = ++orders_;
  std::rotate(history.rounds.begin(), history.rounds.end() - 1, history.rounds.end());
  history.rounds.front() = {asked, answered};
  if (history.same == 1 && descriptor.planned_group.id != 0) {
    Persistent& plan = persistent_[descriptor.planned_group.id];
    plan.size = descriptor.planned_group.size;
    history.is_persistent = true;
    if (std::find(plan.names.begin(), plan.names.end(), &found->first) == plan.names.end()) {
      plan.names.push_back(&found->first);
    }
    if (plan.names.size() == plan.size) {
      complete_.push_back(descriptor.planned_group.id);
    }
  }
  stir(history);
  consider(found->first, history);
}

/// Programs may number their requests: without this the history would grow for ever.
void BucketPlanner::forget_names_that_came_once() {
  std::erase_if(names_, [](const auto& entry) {
    const History& history = entry.second;
    return history.bucket == kNone && !history.is_candidate && !history.is_persistent && history.answers <= 1;
  });
  forget_at_ = std::max(kNamesKept, 2 * names_.size());
}

/// The call counts for the phase. It came to nothing good here: in force it would have kept its ranks waiting.
void BucketPlanner::on_other_calls(const std::string& name) {
  const auto found = names_.find(name);
  if (found == names_.end()) {
    return;
  }
  on_error(name);
  if (++found->second.other_calls == kMostOtherCalls) {
    found->second.never = true;
    if (found->second.bucket != kNone) {
      dissolve(found->second.bucket);
    }
  }
}

void BucketPlanner::on_error(const std::string& name) {
  const auto found = names_.find(name);
  if (found == names_.end()) {
    return;  // a name that is planned has been answered before
  }
  History& history = found->second;
  ++history.answers;
  history.same = 0;
  history.since_break = 0;
  std::rotate(history.rounds.begin(), history.rounds.end() - 1, history.rounds.end());
  history.rounds.front() = {};
  stir(history);
}

void BucketPlanner::demote(const std::string& name) {
  const auto found = names_.find(name);
  if (found == names_.end() || found->second.alone) {
    return;
  }
  found->second.alone = true;
  if (found->second.bucket != kNone) {
    dissolve(found->second.bucket);
  }
}

void BucketPlanner::plan_anew(const std::string& name) {
  const auto found = names_.find(name);
  if (found == names_.end()) {
    return;
  }
  found->second.same = 0;
  if (found->second.bucket != kNone) {
    dissolve(found->second.bucket);
  }
}

void BucketPlanner::on_prepared(std::uint32_t id) {
  Planned& planned = buckets_[id];
  planned.prepared = true;
  if (planned.life == Life::preparing) {
    set_life(planned, Life::ready);
  } else {
    retire(planned);  // dissolved while the ranks made it ready
  }
}

void BucketPlanner::refuse(std::uint32_t id) {
  Planned& planned = buckets_[id];
  for (History* member : planned.members) {
    member->never = true;
  }
  planned.prepared = true;
  retire(planned);
}

void BucketPlanner::on_in_force(const std::vector<std::uint32_t>& ids) {
  for (std::uint32_t id : ids) {
    Planned& planned = buckets_[id];
    set_life(planned, Life::in_force);
    planned.was_in_force = true;
    note_together(planned);
  }
}

void BucketPlanner::on_epoch_over(bool healthy) {
  for (Planned& planned : buckets_) {
    const bool served = planned.life == Life::in_force || (planned.life == Life::retiring && planned.was_in_force);
    if (healthy && served) {
      for (History* member : planned.members) {
        member->changes = 0;
      }
    }
    if (planned.life == Life::in_force) {
      set_life(planned, Life::ready);
    } else if (planned.life == Life::retiring && planned.prepared) {
      retire(planned);
    }
  }
  for (auto& [name, history] : names_) {
    history.since_break = 0;
  }
}

bool BucketPlanner::may_be_abandoned(const Planned& planned) const {
  return (planned.life == Life::in_force || planned.life == Life::ready) &&
         std::none_of(planned.members.begin(), planned.members.end(), [](const History* member) {
           return member->is_persistent || !member->planning_name.empty() || member->is_candidate;
         });
}

std::size_t BucketPlanner::count_use(const std::vector<std::uint32_t>& unused) {
  std::size_t used = 0;
  for (Planned& planned : buckets_) {
    const bool was_replayed =
        planned.life == Life::in_force && !std::binary_search(unused.begin(), unused.end(), planned.bucket.id);
    const bool was_answered = std::any_of(planned.members.begin(), planned.members.end(),
                                          [&](const History* member) { return member->order > counted_order_; });
    used += was_replayed ? 1 : 0;
    if (was_replayed || was_answered || !may_be_abandoned(planned)) {
      continue;
    }
    planned.is_abandoned = true;
    for (History* member : planned.members) {
      member->same = 0;
    }
    dissolve(planned.bucket.id);
  }
  counted_order_ = orders_;
  return used;
}

/// Its members are planned anew. One that is in force stays their bucket until the epoch is over: within an epoch a
/// name belongs to one bucket only.
void BucketPlanner::dissolve(std::uint32_t id) {
  Planned& planned = buckets_[id];
  if (planned.life == Life::ready) {
    retire(planned);
  } else if (planned.life == Life::preparing || planned.life == Life::in_force) {
    set_life(planned, Life::retiring);
  }
}

void BucketPlanner::set_life(Planned& planned, Life life) {
  planned.life = life;
  if (life == Life::ready) {
    stirred_.insert(planned.bucket.id);
  } else {
    stirred_.erase(planned.bucket.id);
  }
}

/// Whether a bucket is in phase, and has rested, changes with its members' answers alone.
void BucketPlanner::stir(const History& history) {
  if (history.bucket != kNone && buckets_[history.bucket].life == Life::ready) {
    stirred_.insert(history.bucket);
  }
}

void BucketPlanner::retire(Planned& planned) {
  set_life(planned, Life::retired);
  retired_.push_back(planned.bucket.id);
  for (std::size_t i = 0; i < planned.members.size(); ++i) {
    planned.members[i]->bucket = kNone;
    if (planned.is_abandoned && planned.members[i]->same == 0) {
      names_.erase(planned.bucket.members[i].name);
    } else {
      consider(names_.find(planned.bucket.members[i].name)->first, *planned.members[i]);
    }
  }
  --live_;
  // Ids are not used again: what is kept of a bucket must be small.
  planned.members = {};
  planned.together = {};
  planned.bucket.members = {};
}

// ---- What to do

std::uint32_t BucketPlanner::answers_needed(const History& history) {
  if (history.changes <= kFewChanges) {
    return kEqualAnswers;
  }
  return kEqualAnswers << std::min(history.changes - kFewChanges + 2, kMostDoublings);
}

bool BucketPlanner::may_be_planned(const History& history) const {
  return history.bucket == kNone && !history.never && history.same >= answers_needed(history) &&
         is_plannable(history.descriptor);
}

bool BucketPlanner::is_small(const History& history) const {
  return !history.alone && settings_.fusion_threshold > 0 &&
         payload_bytes(history.descriptor) <= settings_.fusion_small;
}

void BucketPlanner::consider(const std::string& name, History& history) {
  if (!history.is_candidate && may_be_planned(history)) {
    history.is_candidate = true;
    candidates_.push_back(&name);
  }
}

std::vector<Bucket> BucketPlanner::propose(bool quiet) {
  std::vector<std::uint32_t> made;
  propose_persistent(made);
  std::vector<const std::string*> ready;
  bool patient = false;
  for (const std::string* name : candidates_) {
    const History& history = names_.find(*name)->second;
    patient |= is_small(history) && history.same >= answers_needed(history) + kPatience;
  }
  std::erase_if(candidates_, [&](const std::string* name) {
    History& history = names_.find(*name)->second;
    const bool plannable = may_be_planned(history);
    if (plannable && is_small(history) && !quiet && !patient) {
      return false;  // its step is not over: more that belongs to it may come
    }
    history.is_candidate = false;
    if (plannable) {
      ready.push_back(name);
    }
    return true;
  });
  for (std::uint32_t id : pack(ready, false)) {
    made.push_back(id);
  }
  std::vector<Bucket> buckets;
  buckets.reserve(made.size());
  for (std::uint32_t id : made) {
    buckets.push_back(buckets_[id].bucket);
  }
  return buckets;
}

/// A persistent plan says itself what belongs together: one agreement is enough, if each name has had one answer with
/// the plan's mark for each of the others (a first start that failed for some leaves them to the ordinary rules).
void BucketPlanner::propose_persistent(std::vector<std::uint32_t>& made) {
  for (std::uint64_t id : std::exchange(complete_, {})) {
    std::vector<const std::string*> names;
    std::uint64_t rounds = 0;
    bool equal = true;
    for (const std::string* name : persistent_[id].names) {
      const History& history = names_.find(*name)->second;
      if (history.descriptor.planned_group.id != id) {
        equal = false;
        continue;
      }
      rounds = rounds == 0 ? history.answers - history.before_mark : rounds;
      equal &= rounds == history.answers - history.before_mark;
      const bool trusted = history.same > 0 && history.changes <= kFewChanges;
      if (history.bucket == kNone && !history.never && trusted && is_plannable(history.descriptor)) {
        names.push_back(name);
      }
    }
    if (equal) {
      const std::vector<std::uint32_t> packed = pack(names, true);
      made.insert(made.end(), packed.begin(), packed.end());
    }
  }
}

/// Large names alone; small ones in the order of their last answer into buckets of what is reduced alike and was
/// together in each of the last rounds, up to the fusion threshold.
std::vector<std::uint32_t> BucketPlanner::pack(const std::vector<const std::string*>& names, bool declared_together) {
  std::vector<const std::string*> sorted = names;
  std::sort(sorted.begin(), sorted.end(), [this](const std::string* a, const std::string* b) {
    return names_.find(*a)->second.order < names_.find(*b)->second.order;
  });
  std::vector<std::uint32_t> made;
  std::map<FusionKey, std::vector<Draft>> drafts;
  for (const std::string* name : sorted) {
    const History& history = names_.find(*name)->second;
    if (!is_small(history)) {
      made.push_back(make_bucket({name}));
      continue;
    }
    const std::uint64_t bytes = payload_bytes(history.descriptor);
    std::vector<Draft>& open = drafts[fusion_key(history.descriptor, fusion_class(history))];
    const auto joins = [&](Draft& draft) {
      std::array<Round, kEqualAnswers> common = draft.common;
      for (std::size_t i = 0; i < common.size(); ++i) {
        common[i].asked = std::max(common[i].asked, history.rounds[i].asked);
        common[i].answered = std::min(common[i].answered, history.rounds[i].answered);
        if (!declared_together && common[i].asked >= common[i].answered) {
          return false;
        }
      }
      if (draft.bytes + bytes > settings_.fusion_threshold) {
        return false;
      }
      draft.common = common;
      draft.bytes += bytes;
      draft.names.push_back(name);
      return true;
    };
    if (std::none_of(open.begin(), open.end(), joins)) {
      open.push_back({{name}, bytes, history.rounds});
    }
  }
  for (const auto& [key, open] : drafts) {
    for (const Draft& draft : open) {
      made.push_back(make_bucket(draft.names));
    }
  }
  return made;
}

std::uint32_t BucketPlanner::make_bucket(const std::vector<const std::string*>& names) {
  const auto id = static_cast<std::uint32_t>(buckets_.size());
  Planned& planned = buckets_.emplace_back();
  planned.bucket.id = id;
  ++live_;
  for (const std::string* name : names) {
    History& history = names_.find(*name)->second;
    history.bucket = id;
    planned.members.push_back(&history);
    planned.together.push_back(history.answers);
    planned.bucket.members.push_back({*name, history.descriptor, history.places, history.planning_name, history.turn});
  }
  return id;
}

void BucketPlanner::place(std::uint32_t id, BucketLayout::Placed placed) {
  buckets_[id].bucket.layout = std::move(placed.layout);
  buckets_[id].bucket.has_done_words = placed.has_done_words;
  buckets_[id].is_placed = true;
}

bool BucketPlanner::in_phase(const Planned& planned) const {
  const std::uint64_t rounds = planned.members.front()->answers - planned.together.front();
  for (std::size_t i = 0; i < planned.members.size(); ++i) {
    if (planned.members[i]->answers - planned.together[i] != rounds) {
      return broken(Trap::install_out_of_phase);
    }
  }
  return true;
}

/// Whether the members' last rounds show where their steps begin: each round together, and asked for after the one
/// before was answered. Then they are in phase, however often each was answered before. Without this a bucket would be
/// out of phase for ever once one member had come alone: a list that was taken for two, an extra call.
bool BucketPlanner::came_in_steps(const Planned& planned) {
  std::uint64_t next_asked = UINT64_MAX;  // of the round after it, by whichever member is first
  for (std::size_t i = 0; i < kEqualAnswers; ++i) {
    Round common{0, UINT64_MAX};
    std::uint64_t first_asked = UINT64_MAX;
    std::uint64_t last_answered = 0;
    for (const History* member : planned.members) {
      const Round& round = member->rounds[i];
      common.asked = std::max(common.asked, round.asked);
      common.answered = std::min(common.answered, round.answered);
      first_asked = std::min(first_asked, round.asked);
      last_answered = std::max(last_answered, round.answered);
    }
    if (common.asked >= common.answered || last_answered > next_asked) {
      return false;
    }
    next_asked = first_asked;
  }
  return true;
}

void BucketPlanner::note_together(Planned& planned) {
  for (std::size_t i = 0; i < planned.members.size(); ++i) {
    planned.together[i] = planned.members[i]->answers;
  }
}

std::vector<std::uint32_t> BucketPlanner::installable(std::uint32_t clean_rounds) {
  std::vector<std::uint32_t> ids;
  for (std::uint32_t id : stirred_) {
    Planned& planned = buckets_[id];
    if (!in_phase(planned) && came_in_steps(planned)) {
      note_together(planned);
    }
    const bool rested = !planned.was_in_force ||
                        std::all_of(planned.members.begin(), planned.members.end(),
                                    [&](const History* member) { return member->since_break >= clean_rounds; });
    if (rested && in_phase(planned)) {
      ids.push_back(id);
    }
  }
  stirred_.clear();
  stirred_.insert(ids.begin(), ids.end());
  return ids;
}

bool BucketPlanner::waits_for_phase(const std::string& name) const {
  const auto found = names_.find(name);
  return found != names_.end() && found->second.bucket != kNone && buckets_[found->second.bucket].life == Life::ready;
}

std::vector<std::uint32_t> BucketPlanner::take_retired() { return std::exchange(retired_, {}); }

}  // namespace ronde::agreement
