#include "agreement/epochs.h"

#include <algorithm>
#include <utility>

#include "agreement/flags.h"
#include "agreement/traps.h"

namespace ronde::agreement {

namespace {

using Outcome = BucketAcknowledgements::Outcome;

bool is_true_of_all(const std::vector<bool>& bits) {
  return std::all_of(bits.begin(), bits.end(), [](bool bit) { return bit; });
}

}  // namespace

std::string Epochs::rank_text(int member) const {
  return "rank " + std::to_string(group_.ranks[static_cast<std::size_t>(member)]);
}

// ---- Answers

/// The planner hears of an unnamed call under its place's name, if the ranks agree on its planning name: a hint, so
/// they may not.
bool Epochs::on_exec(const std::string& name, const HeldRequest& held, const MemoryPlaces& places,
                     std::uint64_t position) {
  Descriptor descriptor = held.first_descriptor();
  descriptor.memory_place = {};
  const std::set<std::string> planning_names = held.all_planning_names();
  if (planning_names.empty()) {
    planner_.on_exec(name, descriptor, places, held.asked, position);
    return planner_.waits_for_phase(name);
  }
  bool is_moment = false;
  for (const std::string& each : planning_names) {
    const std::uint32_t turn = bursts_.on_answer(each, payload_bytes(descriptor), held.asked, position);
    const std::string place = CallBursts::place_name(each, turn);
    if (planning_names.size() > 1) {
      planner_.on_other_calls(place);
      continue;
    }
    planner_.on_exec(place, descriptor, places, held.asked, position, each, turn);
    if (bursts_.is_uneven(each)) {
      planner_.demote(place);
    }
    is_moment = bursts_.is_between(each) && planner_.waits_for_phase(place);
  }
  return is_moment;
}

bool Epochs::on_error(const std::string& name, const HeldRequest& held, std::uint64_t position) {
  planner_.on_error(name);
  for (const std::string& each : held.all_planning_names()) {
    const std::uint32_t turn = bursts_.on_answer(each, 0, held.asked, position);
    planner_.on_error(CallBursts::place_name(each, turn));
  }
  return planner_.waits_for_phase(name);
}

// ---- Preparing

std::vector<control::PrepareEntry> Epochs::prepare(bool all_answered) {
  std::vector<control::PrepareEntry> entries;
  for (const Bucket& bucket : planner_.propose(all_answered)) {
    std::optional<BucketLayout::Placed> placed = layout_->place(bucket, limits_);
    if (!placed) {
      planner_.refuse(bucket.id);
      continue;
    }
    planner_.place(bucket.id, *std::move(placed));
    acknowledgements_.expect(bucket.id);
    entries.push_back({planner_.bucket(bucket.id)});
  }
  return entries;
}

Status Epochs::on_prepared(int member, const control::PreparedMessage& message) {
  const Outcome outcome = acknowledgements_.on_prepared(member, message.bucket, message.refused);
  if (outcome == Outcome::invalid) {
    return Status::error(Code::internal,
                         rank_text(member) + " prepared a bucket that it was not asked for, or did so twice");
  }
  if (message.refused) {  // it has nothing to free
    RONDE_RETURN_IF_ERROR(on_free(member, message.bucket));
  }
  if (outcome == Outcome::refused) {
    planner_.refuse(message.bucket);
  } else if (outcome == Outcome::all) {
    planner_.on_prepared(message.bucket);
  }
  return {};
}

Status Epochs::on_free(int member, std::uint32_t bucket) {
  const Outcome outcome = acknowledgements_.on_free(member, bucket);
  if (outcome == Outcome::invalid) {
    return Status::error(Code::internal,
                         rank_text(member) + " freed bucket " + std::to_string(bucket) + ", which it does not have");
  }
  if (outcome == Outcome::all) {
    layout_->take_back(planner_.bucket(bucket));
  }
  return {};
}

std::optional<control::RetireEntry> Epochs::retire() {
  std::vector<std::uint32_t> ids = planner_.take_retired();
  std::erase_if(ids, [this](std::uint32_t id) { return !planner_.is_placed(id); });
  return ids.empty() ? std::nullopt : std::optional(control::RetireEntry{std::move(ids)});
}

// ---- In force

std::optional<Epochs::InForce> Epochs::put_in_force() {
  const bool added = is_running();
  // Whoever has left the epoch could not take part in what is added to it.
  if ((added && std::find(ended_.begin(), ended_.end(), true) != ended_.end()) || (!added && epoch_ == kMaxEpoch)) {
    return std::nullopt;
  }
  std::vector<std::uint32_t> ids = planner_.installable(backoff_.wait());
  drop_incomplete_bursts(ids);
  if (ids.empty()) {
    return std::nullopt;
  }
  InForce in_force;
  for (std::uint32_t id : ids) {
    for (const BucketMember& member : planner_.bucket(id).members) {
      if (member.is_unnamed()) {
        in_force.planning_names.insert(member.planning_name);
      } else {
        in_force.names.push_back(member.name);
      }
    }
  }
  planner_.on_in_force(ids);
  if (added) {
    in_force.entry = control::AddEntry{epoch_, std::move(ids)};
    return in_force;
  }
  ++epoch_;
  is_over_ = false;
  ended_.assign(ended_.size(), false);
  in_force.entry = control::InstallEntry{epoch_, std::move(ids)};
  return in_force;
}

/// The ranks take the places of a planning name in turn, from the first on: all of them begin at one entry, between two
/// bursts. A bucket that is left out may hold places of other planning names. Places from when bursts were longer go.
void Epochs::drop_incomplete_bursts(std::vector<std::uint32_t>& buckets) {
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

// ---- The end of an epoch

Status Epochs::on_end(int member, const control::EndMessage& message) {
  const auto index = static_cast<std::size_t>(member);
  if (broken(Trap::install_before_all_ended) && is_over_) {
    return {};
  }
  if (message.epoch != epoch_ || ended_[index]) {
    return Status::error(Code::internal, rank_text(member) + " ended epoch " + std::to_string(message.epoch) +
                                             " in epoch " + std::to_string(epoch_));
  }
  ended_[index] = true;
  for (const std::string& name : message.missing) {
    planner_.demote(name);
  }
  plan_what_is_crowded(message);
  backoff_.on_end(message.instances);
  if (member == 0) {
    unused_ = message.unused;
  }
  if (is_true_of_all(ended_) || broken(Trap::install_before_all_ended)) {
    on_over();
  }
  return {};
}

/// Anew: more calls of these are made at once than were planned.
void Epochs::plan_what_is_crowded(const control::EndMessage& message) {
  for (const std::string& planning_name : message.crowded) {
    const std::uint32_t places = bursts_.forget_length(planning_name);
    for (std::uint32_t turn = 0; turn < places; ++turn) {
      planner_.plan_anew(CallBursts::place_name(planning_name, turn));
    }
  }
}

void Epochs::on_over() {
  is_over_ = true;
  const bool is_many = planner_.live() >= many_;
  const bool is_healthy = backoff_.is_healthy();
  const bool counts = is_healthy || is_many;
  const std::size_t used = counts ? planner_.count_use(std::exchange(unused_, {})) : 0;
  backoff_.on_over(is_many);
  planner_.on_epoch_over(is_healthy);
  if (counts) {
    many_ = planner_.live() + std::max(fewest_, used);
  }
}

}  // namespace ronde::agreement
