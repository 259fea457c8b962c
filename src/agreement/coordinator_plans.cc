// The coordinator's rows of replay: END, JOIN, PREPARE, INSTALL, ADD, FREE.
#include <algorithm>
#include <utility>

#include "agreement/coordinator.h"
#include "agreement/flags.h"

namespace ronde::agreement {

namespace {

constexpr std::uint32_t kLongestWait = 64;          ///< clean rounds
constexpr std::uint64_t kInstancesOfHealth = 1000;  ///< without a break: the next is the first again

bool all(const std::vector<bool>& bits) {
  return std::all_of(bits.begin(), bits.end(), [](bool bit) { return bit; });
}

}  // namespace

std::vector<control::Message> Coordinator::take_log() {
  if (plans()) {
    prepare_new_buckets();
    put_in_force();
    retire_old_buckets();
  }
  return std::exchange(log_, {});
}

void Coordinator::prepare_new_buckets() {
  for (const Bucket& bucket : planner_.propose(held_.empty())) {
    std::optional<std::string> layout = layout_->place(bucket);
    if (!layout) {
      planner_.refuse(bucket.id);
      continue;
    }
    planner_.place(bucket.id, *std::move(layout));
    preparing_[bucket.id];
    freed_[bucket.id];
    append(control::PrepareEntry{planner_.bucket(bucket.id)});
  }
}

/// PREPARE of a bucket that is proposed after this comes behind the entry, so its kind and what every rank makes of it
/// go by the same row.
void Coordinator::on_table(const Thresholds& thresholds) {
  if (leaving_.empty() && left_.empty()) {
    append(control::TableEntry{thresholds});
    planner_.set_limits({thresholds.inlined, thresholds.staged});
  }
}

Status Coordinator::on_prepared(int member, const control::PreparedMessage& message) {
  const auto found = preparing_.find(message.bucket);
  if (found == preparing_.end() || !found->second.answered.insert(member).second) {
    return Status::error(Code::internal, "rank " + std::to_string(group_.ranks[static_cast<std::size_t>(member)]) +
                                             " prepared a bucket that it was not asked for, or did so twice");
  }
  found->second.refused |= message.refused;
  if (message.refused) {  // it has nothing to free
    RONDE_RETURN_IF_ERROR(on_free(member, message.bucket));
  }
  if (static_cast<int>(found->second.answered.size()) < group_.size()) {
    return {};
  }
  const bool refused = found->second.refused;
  preparing_.erase(found);
  if (refused) {
    planner_.refuse(message.bucket);
  } else {
    planner_.on_prepared(message.bucket);
  }
  return {};
}

/// INSTALL if no epoch runs, ADD if one does. The position in the log is the agreement: who reads the entry moves what
/// is outstanding of these names into its places, so what is held of them here is forgotten, and what is still on its
/// way here is known by its label.
void Coordinator::put_in_force() {
  if (!plans() || std::find(joined_.begin(), joined_.end(), true) != joined_.end()) {
    return;
  }
  const bool added = epoch_runs();
  // Whoever has left the epoch could not take part in what is added to it.
  if ((added && std::find(ended_.begin(), ended_.end(), true) != ended_.end()) || (!added && epoch_ == kMaxEpoch)) {
    return;
  }
  std::vector<std::uint32_t> ids = planner_.installable(wait_);
  drop_incomplete_bursts(ids);
  if (ids.empty()) {
    return;
  }
  ++moves_;
  std::set<std::string> planning_names;
  for (std::uint32_t id : ids) {
    for (const BucketMember& member : planner_.bucket(id).members) {
      note_move(member.is_unnamed() ? member.planning_name : member.name);
      if (member.is_unnamed()) {
        planning_names.insert(member.planning_name);
      } else {
        forget(member.name);
      }
    }
  }
  if (!planning_names.empty()) {
    forget_calls(planning_names);
  }
  planner_.on_in_force(ids);
  if (added) {
    append(control::AddEntry{epoch_, std::move(ids)});
    return;
  }
  ++epoch_;
  epoch_over_ = false;
  ended_.assign(ended_.size(), false);
  append(control::InstallEntry{epoch_, std::move(ids)});
}

/// The ranks take the places of a planning name in turn, from the first on: all of them begin at one entry, between two
/// bursts. A bucket that is left out may hold places of other planning names. Places from when bursts were longer go.
void Coordinator::drop_incomplete_bursts(std::vector<std::uint32_t>& buckets) {
  std::vector<std::string> outgrown;
  for (bool dropped = true; dropped;) {
    std::map<std::string, std::uint32_t> places;
    for (std::uint32_t id : buckets) {
      for (const BucketMember& member : planner_.bucket(id).members) {
        if (member.is_unnamed() && member.turn < bursts_.length(member.planning_name)) {
          ++places[member.planning_name];
        } else if (member.is_unnamed()) {
          places[member.planning_name] = UINT32_MAX / 2;
          if (bursts_.length(member.planning_name) > 0) {
            outgrown.push_back(member.name);
          }
        }
      }
    }
    std::erase_if(places, [this](const auto& entry) {
      return bursts_.is_between(entry.first) && bursts_.length(entry.first) == entry.second;
    });
    const std::size_t before = buckets.size();
    std::erase_if(buckets, [&](std::uint32_t id) {
      const std::vector<BucketMember>& members = planner_.bucket(id).members;
      return std::any_of(members.begin(), members.end(),
                         [&](const BucketMember& member) { return places.contains(member.planning_name); });
    });
    dropped = buckets.size() < before;
  }
  for (const std::string& name : outgrown) {
    planner_.plan_anew(name);
  }
}

Status Coordinator::on_end(int member, const control::EndMessage& message) {
  const auto index = static_cast<std::size_t>(member);
  if (broken(Trap::install_before_all_ended) && epoch_over_) {
    return {};
  }
  if (message.epoch != epoch_ || ended_[index]) {
    return Status::error(Code::internal, "rank " + std::to_string(group_.ranks[index]) + " ended epoch " +
                                             std::to_string(message.epoch) + " in epoch " + std::to_string(epoch_));
  }
  ended_[index] = true;
  for (const std::string& name : message.missing) {
    planner_.demote(name);
  }
  for (const std::string& planning_name : message.crowded) {
    const std::uint32_t places = bursts_.forget_length(planning_name);
    for (std::uint32_t turn = 0; turn < places; ++turn) {
      planner_.plan_anew(CallBursts::place_name(planning_name, turn));
    }
  }
  healthy_ |= message.instances >= kInstancesOfHealth;
  if (member == 0) {
    unused_ = message.unused;
  }
  if (!all(ended_) && !broken(Trap::install_before_all_ended)) {
    return {};
  }
  epoch_over_ = true;
  const bool is_many = planner_.live() >= many_;
  const bool counts = healthy_ || is_many;
  const std::size_t used = counts ? planner_.count_use(std::exchange(unused_, {})) : 0;
  if (healthy_ || wait_ == 0) {
    wait_ = 1;
  } else if (!is_many) {
    wait_ = std::min(2 * wait_, kLongestWait);
  }
  planner_.on_epoch_over(std::exchange(healthy_, false));
  if (counts) {
    many_ = planner_.live() + std::max(fewest_, used);
  }
  return {};
}

Status Coordinator::on_join(int member, const control::JoinMessage& message) {
  const auto index = static_cast<std::size_t>(member);
  if (joined_[index]) {
    return Status::error(Code::internal,
                         "rank " + std::to_string(group_.ranks[index]) + " joined while it had joined already");
  }
  joined_[index] = true;
  restarts_ = std::max(restarts_, message.last_call >> CallCounts::kCallBits);
  // What waited for this member alone is complete now, in the order in which it was asked for.
  std::vector<std::pair<std::uint64_t, std::string>> complete;
  for (const auto& [name, held] : held_) {
    if (is_complete(held)) {
      complete.emplace_back(held.order, name);
    }
  }
  std::sort(complete.begin(), complete.end());
  for (const auto& [order, name] : complete) {
    Held held = std::move(held_.at(name));
    held_.erase(name);
    forget_deadline(name, held);
    answer(name, held);
  }
  if (all(joined_)) {
    joined_.assign(joined_.size(), false);
    append(control::JoinDoneEntry{member, ++restarts_});
  }
  note_who_has_left();
  return {};
}

Status Coordinator::on_free(int member, std::uint32_t bucket) {
  const auto found = freed_.find(bucket);
  if (found != freed_.end()) {
    found->second.resize(static_cast<std::size_t>(group_.size()));
  }
  if (found == freed_.end() || found->second[static_cast<std::size_t>(member)]) {
    return Status::error(Code::internal, "rank " + std::to_string(group_.ranks[static_cast<std::size_t>(member)]) +
                                             " freed bucket " + std::to_string(bucket) + ", which it does not have");
  }
  found->second[static_cast<std::size_t>(member)] = true;
  if (all(found->second)) {
    freed_.erase(found);
    layout_->take_back(planner_.bucket(bucket));
  }
  return {};
}

void Coordinator::retire_old_buckets() {
  std::vector<std::uint32_t> ids = planner_.take_retired();
  std::erase_if(ids, [this](std::uint32_t id) { return !planner_.is_placed(id); });
  if (!ids.empty()) {
    append(control::RetireEntry{std::move(ids)});
  }
}

}  // namespace ronde::agreement
