#include "agreement/planned_buckets.h"

#include <algorithm>
#include <utility>

#include "agreement/traps.h"

namespace ronde::agreement {

const Bucket& PlannedBuckets::make(const std::vector<NameHistory*>& names) {
  const auto id = static_cast<std::uint32_t>(buckets_.size());
  Planned& planned = buckets_.emplace_back();
  planned.bucket.id = id;
  ++live_;
  for (NameHistory* history : names) {
    history->bucket = id;
    planned.members.push_back(history);
    planned.together.push_back(history->answers);
    planned.bucket.members.push_back(
        {*history->name, history->descriptor, history->places, history->planning_name, history->turn});
  }
  return planned.bucket;
}

// ---- What happened

void PlannedBuckets::on_prepared(std::uint32_t id) {
  Planned& planned = buckets_[id];
  planned.prepared = true;
  if (planned.life == Life::preparing) {
    set_life(planned, Life::ready);
  } else {
    retire(planned);  // dissolved while the ranks made it ready
  }
}

void PlannedBuckets::refuse(std::uint32_t id) {
  Planned& planned = buckets_[id];
  for (NameHistory* member : planned.members) {
    member->never = true;
  }
  planned.prepared = true;
  retire(planned);
}

void PlannedBuckets::on_in_force(const std::vector<std::uint32_t>& ids) {
  for (std::uint32_t id : ids) {
    Planned& planned = buckets_[id];
    set_life(planned, Life::in_force);
    planned.was_in_force = true;
    note_together(planned);
  }
}

/// Whether a bucket is in phase, and has rested, changes with its members' answers alone.
void PlannedBuckets::on_answer(const NameHistory& history) {
  if (waits_for_phase(history)) {
    stirred_.insert(history.bucket);
  }
}

void PlannedBuckets::dissolve_of(const NameHistory& history) {
  if (history.bucket != NameHistory::kNoBucket) {
    dissolve(buckets_[history.bucket]);
  }
}

/// Its members are planned anew. One that is in force stays their bucket until the epoch is over: within an epoch a
/// name belongs to one bucket only.
void PlannedBuckets::dissolve(Planned& planned) {
  if (planned.life == Life::ready) {
    retire(planned);
  } else if (planned.life == Life::preparing || planned.life == Life::in_force) {
    set_life(planned, Life::retiring);
  }
}

void PlannedBuckets::on_epoch_over(bool healthy) {
  for (Planned& planned : buckets_) {
    const bool served = planned.life == Life::in_force || (planned.life == Life::retiring && planned.was_in_force);
    if (healthy && served) {
      for (NameHistory* member : planned.members) {
        member->on_served_long();
      }
    }
    if (planned.life == Life::in_force) {
      set_life(planned, Life::ready);
    } else if (planned.life == Life::retiring && planned.prepared) {
      retire(planned);
    }
  }
}

bool PlannedBuckets::may_be_abandoned(const Planned& planned) {
  return (planned.life == Life::in_force || planned.life == Life::ready) &&
         std::none_of(planned.members.begin(), planned.members.end(), [](const NameHistory* member) {
           return member->is_persistent || !member->planning_name.empty() || member->is_candidate;
         });
}

std::size_t PlannedBuckets::count_use(const std::vector<std::uint32_t>& unused, std::uint64_t order) {
  std::size_t used = 0;
  for (Planned& planned : buckets_) {
    const bool was_replayed =
        planned.life == Life::in_force && !std::binary_search(unused.begin(), unused.end(), planned.bucket.id);
    const bool was_answered = std::any_of(planned.members.begin(), planned.members.end(),
                                          [&](const NameHistory* member) { return member->order > counted_order_; });
    used += was_replayed ? 1 : 0;
    if (was_replayed || was_answered || !may_be_abandoned(planned)) {
      continue;
    }
    planned.is_abandoned = true;
    for (NameHistory* member : planned.members) {
      member->begin_again();
    }
    dissolve(planned);
  }
  counted_order_ = order;
  return used;
}

void PlannedBuckets::place(std::uint32_t id, BucketLayout::Placed placed) {
  buckets_[id].bucket.layout = std::move(placed.layout);
  buckets_[id].bucket.has_done_words = placed.has_done_words;
  buckets_[id].is_placed = true;
}

void PlannedBuckets::set_life(Planned& planned, Life life) {
  planned.life = life;
  if (life == Life::ready) {
    stirred_.insert(planned.bucket.id);
  } else {
    stirred_.erase(planned.bucket.id);
  }
}

void PlannedBuckets::retire(Planned& planned) {
  set_life(planned, Life::retired);
  retired_.push_back(planned.bucket.id);
  for (NameHistory* member : planned.members) {
    member->bucket = NameHistory::kNoBucket;
    released_.push_back({member, planned.is_abandoned && member->same == 0});
  }
  --live_;
  // Ids are not used again: what is kept of a bucket must be small.
  planned.members = {};
  planned.together = {};
  planned.bucket.members = {};
}

// ---- What to do

bool PlannedBuckets::waits_for_phase(const NameHistory& history) const {
  return history.bucket != NameHistory::kNoBucket && buckets_[history.bucket].life == Life::ready;
}

bool PlannedBuckets::in_phase(const Planned& planned) {
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
bool PlannedBuckets::came_in_steps(const Planned& planned) {
  std::uint64_t next_asked = UINT64_MAX;  // of the round after it, by whichever member is first
  for (std::size_t i = 0; i < NameHistory::kEqualAnswers; ++i) {
    Round common{0, UINT64_MAX};
    std::uint64_t first_asked = UINT64_MAX;
    std::uint64_t last_answered = 0;
    for (const NameHistory* member : planned.members) {
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

void PlannedBuckets::note_together(Planned& planned) {
  for (std::size_t i = 0; i < planned.members.size(); ++i) {
    planned.together[i] = planned.members[i]->answers;
  }
}

std::vector<std::uint32_t> PlannedBuckets::installable(std::uint32_t clean_rounds) {
  std::vector<std::uint32_t> ids;
  for (std::uint32_t id : stirred_) {
    Planned& planned = buckets_[id];
    if (!in_phase(planned) && came_in_steps(planned)) {
      note_together(planned);
    }
    const bool rested = !planned.was_in_force ||
                        std::all_of(planned.members.begin(), planned.members.end(),
                                    [&](const NameHistory* member) { return member->since_break >= clean_rounds; });
    if (rested && in_phase(planned)) {
      ids.push_back(id);
    }
  }
  stirred_.clear();
  stirred_.insert(ids.begin(), ids.end());
  return ids;
}

std::vector<std::uint32_t> PlannedBuckets::take_retired() { return std::exchange(retired_, {}); }

std::vector<PlannedBuckets::Released> PlannedBuckets::take_released() { return std::exchange(released_, {}); }

}  // namespace ronde::agreement
