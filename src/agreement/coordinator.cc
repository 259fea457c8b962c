#include "agreement/coordinator.h"

#include <algorithm>
#include <utility>

#include "agreement/answer.h"
#include "agreement/request_errors.h"
#include "agreement/traps.h"

namespace ronde::agreement {

Coordinator::Coordinator(Group group, control::SettingsEntry settings, BucketLayout* layout, MayReduceAt may_reduce_at)
    : group_(std::move(group)),
      may_reduce_at_(std::move(may_reduce_at)),
      held_(group_.size()),
      labels_(group_.size()),
      calls_(group_.size()),
      joined_(static_cast<std::size_t>(group_.size())),
      epochs_(group_, settings, layout) {
  if (settings.ordered) {
    launches_.emplace(group_.size());
  }
  append(settings);
}

void Coordinator::append(control::Message entry) {
  ++position_;
  log_.push_back(std::move(entry));
}

std::vector<control::Message> Coordinator::take_log() {
  if (plans()) {
    for (control::PrepareEntry& entry : epochs_.prepare(held_.is_empty())) {
      append(std::move(entry));
    }
    put_in_force();
    if (std::optional<control::RetireEntry> retired = epochs_.retire()) {
      append(*std::move(retired));
    }
  }
  return std::exchange(log_, {});
}

// ---- Requests

Status Coordinator::on_request(int member, control::RequestMessage request, Nanoseconds now) {
  if (!left_.empty()) {
    return {};  // it can never complete; its rank fails it when it reads the LEFT entry
  }
  labels_.on_label(member, request.label);
  if (labels_.is_late(request) && !broken(Trap::no_label_drop)) {
    return {};  // its rank still has that entry before it, and moves or fails this request itself (trap 7)
  }
  const std::string name = request.name;
  const std::uint64_t last_call = request.call_number;
  const HeldRequest* const held = held_.add(member, std::move(request), now);
  if (held == nullptr) {
    return Status::error(Code::internal, "rank " + std::to_string(group_.ranks[static_cast<std::size_t>(member)]) +
                                             " requested '" + name + "' twice");
  }
  if (held->descriptors[static_cast<std::size_t>(member)].kind == OpKind::barrier) {
    calls_.on_barrier(member, last_call);
    for (const std::string& beyond :
         held_.names_where([&](const HeldRequest& each) { return is_beyond_barrier(each); })) {
      if (const std::optional<HeldRequest> failed = held_.take(beyond)) {
        fail_beyond_barrier(beyond, *failed);
      }
    }
  }
  if (const HeldRequest* const still = held_.find(name)) {
    answer_early(name, *still);
  }
  return {};
}

/// If there is an answer yet.
void Coordinator::answer_early(const std::string& name, const HeldRequest& held) {
  if (is_complete(held)) {
    answer(name, *held_.take(name));
  } else if (is_beyond_barrier(held)) {
    fail_beyond_barrier(name, *held_.take(name));
  } else if (is_abandoned(held)) {
    fail_abandoned(name, *held_.take(name));
  } else {
    return;
  }
  note_who_has_left();
}

bool Coordinator::is_complete(const HeldRequest& held) const {
  for (std::size_t i = 0; i < held.has.size(); ++i) {
    if (!held.has[i] && !joined_[i]) {
      return false;
    }
  }
  return true;
}

std::vector<int> Coordinator::missing_ranks(const HeldRequest& held) const {
  std::vector<int> missing;
  for (std::size_t i = 0; i < held.has.size(); ++i) {
    if (!held.has[i] && !joined_[i]) {
      missing.push_back(group_.ranks[i]);
    }
  }
  return missing;
}

void Coordinator::answer(const std::string& name, const HeldRequest& held) {
  Answer answer = answer_to(group_, name, held, may_reduce_at_, has_lost_order_);
  // Which call of one member is which of another's nobody knows before their next barrier.
  has_lost_order_ = answer.loses_order || (has_lost_order_ && held.first_descriptor().kind != OpKind::barrier);
  if (!answer.item) {
    append_error(name, held, Code::mismatch, -1, std::move(answer.mismatch));
    return;
  }
  const MemoryPlaces places = answer.item->places;
  if (log_.empty() || !std::holds_alternative<control::ExecEntry>(log_.back())) {
    append(control::ExecEntry{});
  }
  std::get<control::ExecEntry>(log_.back()).items.push_back(*std::move(answer.item));
  if (plans() && epochs_.on_exec(name, held, places, position_)) {
    put_in_force();
  }
}

/// The position in the log is the agreement: who reads the entry moves what is outstanding of these names into its
/// places, so what is held of them here is forgotten, and what is still on its way here is known by its label.
void Coordinator::put_in_force() {
  if (!plans() || std::find(joined_.begin(), joined_.end(), true) != joined_.end()) {
    return;
  }
  if (launches_ && epochs_.is_running() && !launches_->is_open()) {
    return;  // what would be added could not be launched any more
  }
  std::optional<Epochs::InForce> in_force = epochs_.put_in_force();
  if (!in_force) {
    return;
  }
  labels_.begin_entry();
  for (const std::string& name : in_force->names) {
    labels_.concerns(name);
    held_.take(name);
  }
  for (const std::string& planning_name : in_force->planning_names) {
    labels_.concerns(planning_name);
  }
  if (!in_force->planning_names.empty()) {
    held_.forget_calls(in_force->planning_names);
  }
  if (launches_) {
    if (const auto* install = std::get_if<control::InstallEntry>(&in_force->entry)) {
      launches_->on_install(*install);
    } else {
      launches_->on_add(std::get<control::AddEntry>(in_force->entry));
    }
  }
  std::visit([this](auto& entry) { append(std::move(entry)); }, in_force->entry);
}

// ---- An ordered group

/// The position in the log is the order: what becomes full at once is one entry.
Status Coordinator::on_full(int member, const control::FullMessage& message) {
  if (!launches_) {
    return Status::error(Code::internal, "a bucket is said to be full, and this group goes by flags");
  }
  RONDE_ASSIGN_OR_RETURN(const Launches::Due due, launches_->on_full(member, message));
  if (due == Launches::Due::stop) {
    log_break();
  } else if (due == Launches::Due::launch) {
    auto* last = log_.empty() ? nullptr : std::get_if<control::LaunchEntry>(&log_.back());
    if (last == nullptr || last->epoch != message.epoch) {
      append(control::LaunchEntry{message.epoch, {}});
      last = &std::get<control::LaunchEntry>(log_.back());
    }
    last->buckets.push_back(message.bucket);
  }
  return {};
}

void Coordinator::on_frozen(const control::FrozenMessage& message) {
  if (launches_ && launches_->on_frozen(message)) {
    log_break();
  }
}

void Coordinator::log_break() {
  append(control::BreakEntry{launches_->epoch()});
  launches_->on_break();
}

/// PREPARE of a bucket that is proposed after this comes behind the entry, so its kind and what every rank makes of it
/// go by the same row.
void Coordinator::on_table(const Thresholds& thresholds) {
  if (leaving_.empty() && left_.empty()) {
    append(control::TableEntry{thresholds});
    epochs_.on_table(thresholds);
  }
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
  for (const std::string& name : held_.names_where([&](const HeldRequest& held) { return is_complete(held); })) {
    answer(name, *held_.take(name));
  }
  if (std::find(joined_.begin(), joined_.end(), false) == joined_.end()) {
    joined_.assign(joined_.size(), false);
    has_lost_order_ = false;
    append(control::JoinDoneEntry{member, ++restarts_});
  }
  note_who_has_left();
  return {};
}

// ---- Errors

void Coordinator::append_error(const std::string& name, const HeldRequest& held, Code code, int failed_rank,
                               std::string text, const std::vector<int>& unconcerned) {
  control::ErrorEntry entry{name, code, failed_rank, std::move(text), {unconcerned.begin(), unconcerned.end()}};
  for (std::size_t i = 0; i < joined_.size(); ++i) {
    if (joined_[i]) {
      entry.joined.push_back(static_cast<std::int32_t>(i));
    }
  }
  append(std::move(entry));
  labels_.begin_entry();
  labels_.concerns(name);
  if (plans() && epochs_.on_error(name, held, position_)) {
    put_in_force();
  }
}

void Coordinator::on_refused(int member, const control::RefusedMessage& message) {
  if (!left_.empty() || refused_ == message.name) {
    return;  // most calls that are refused are so on every rank, for the same reason
  }
  refused_ = message.name;
  const HeldRequest held = held_.take(message.name).value_or(HeldRequest());
  const int rank = group_.ranks[static_cast<std::size_t>(member)];
  append_error(message.name, held, Code::mismatch, rank,
               "rank " + std::to_string(rank) + " has made the call that meets this one, '" + message.name +
                   "', and it was refused there: " + message.text,
               {member});
}

void Coordinator::on_cancel(int member, const control::CancelMessage& message) {
  const HeldRequest* const found = held_.find(message.name);
  if (found == nullptr || !found->is_from(member)) {
    return;  // answered by now, or on its way into a bucket; the member asks again while it is under way
  }
  const HeldRequest cancelled = *held_.take(message.name);
  append_error(message.name, cancelled, Code::cancelled, group_.ranks[static_cast<std::size_t>(member)],
               cancelled_text(group_, message.name, cancelled, member, missing_ranks(cancelled)));
  note_who_has_left();
}

void Coordinator::on_time(Nanoseconds now) {
  while (const std::optional<std::string> name = held_.overdue(now)) {
    const HeldRequest late = *held_.take(*name);
    const std::vector<int> missing = missing_ranks(late);
    append_error(*name, late, Code::timed_out, missing.front(), late_text(*name, late, missing));
  }
}

/// It is an unnamed call that a member does not make, since it has called a barrier.
bool Coordinator::is_beyond_barrier(const HeldRequest& held) const {
  return held.call_number != 0 && calls_.who_does_not_make(held.call_number);
}

/// It concerns whoever may have requested it as well: such a request is late by this entry's label, so its rank must
/// fail it when it reads the entry.
void Coordinator::fail_beyond_barrier(const std::string& name, const HeldRequest& held) {
  const int member = *calls_.who_does_not_make(held.call_number);
  std::vector<int> unconcerned;
  for (int each = 0; each < group_.size(); ++each) {
    if (calls_.does_not_make(each, held.call_number)) {
      unconcerned.push_back(each);
    }
  }
  const int rank = group_.ranks[static_cast<std::size_t>(member)];
  append_error(name, held, Code::mismatch, rank,
               beyond_barrier_text(group_, name, held, rank, calls_.made(member, held.call_number)), unconcerned);
}

// ---- Leaving

void Coordinator::on_leave(int member, bool final) {
  if (left_.contains(member)) {
    return;
  }
  if (final) {
    log_left(member);
    return;
  }
  leaving_.insert(member);
  for (const std::string& name : held_.names_where([&](const HeldRequest& held) { return is_abandoned(held); })) {
    fail_abandoned(name, *held_.take(name));
  }
  note_who_has_left();
}

/// A leaving member has not submitted it, and never will.
bool Coordinator::is_abandoned(const HeldRequest& held) const {
  return std::any_of(leaving_.begin(), leaving_.end(), [&](int member) { return !held.is_from(member); });
}

void Coordinator::fail_abandoned(const std::string& name, const HeldRequest& held) {
  const int member = *std::find_if(leaving_.begin(), leaving_.end(), [&](int each) { return !held.is_from(each); });
  const int rank = group_.ranks[static_cast<std::size_t>(member)];
  append_error(name, held, Code::peer_left, rank,
               "'" + name + "': rank " + std::to_string(rank) + " has left the job (it shut down or exited)");
}

void Coordinator::note_who_has_left() {
  const std::set<int> leaving = leaving_;
  for (int member : leaving) {
    if (!held_.any_from(member)) {
      log_left(member);
    }
  }
}

void Coordinator::log_left(int member) {
  leaving_.erase(member);
  left_.insert(member);
  if (launches_ && launches_->is_open()) {
    log_break();  // a member that leaves at once breaks nothing itself, and may be this one: nobody launches any more
  }
  append(control::LeftEntry{member});
  // A name held without a member that leaves has failed already. What is left here came from members of which one has
  // left for good: none can complete any more, every member fails its own when it reads the entry.
  held_.clear();
  for (int other : std::exchange(leaving_, {})) {
    left_.insert(other);
    append(control::LeftEntry{other});
  }
  if (all_left()) {
    append(control::AllLeftEntry{});
  }
}

}  // namespace ronde::agreement
