#include "agreement/coordinator.h"

#include <algorithm>
#include <utility>

#include "agreement/traps.h"

namespace ronde::agreement {

namespace {

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  }
  return text;
}

std::string seconds_text(Nanoseconds span) {
  std::string text = std::to_string(static_cast<double>(span) / static_cast<double>(kSecond));
  text.erase(text.find('.') + 2);
  return text + " s";
}

/// "ranks 0, 2 asked for allreduce (sum) of float32 [2]; rank 1 asked for ..."
std::string views_text(const Group& group, const std::vector<bool>& has, const std::vector<Descriptor>& descriptors,
                       const std::vector<std::string>& call_sites) {
  std::string text;
  std::vector<bool> told(descriptors.size());
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    if (told[i] || !has[i]) {
      continue;
    }
    std::vector<int> same;
    for (std::size_t j = i; j < descriptors.size(); ++j) {
      if (has[j] && descriptors[j] == descriptors[i] && call_sites[j] == call_sites[i]) {
        same.push_back(group.ranks[j]);
        told[j] = true;
      }
    }
    text += (text.empty() ? "" : "; ") + ranks_text(same) + " asked for " + descriptor_text(descriptors[i]);
    if (!call_sites[i].empty()) {
      text += " at " + call_sites[i];
    }
  }
  return text;
}

/// Of one tensor the rows that the plan needs to know (types/plan.h). `root`: its index in the group, if the operation
/// has one. Requires: no member has joined.
std::vector<std::int64_t> rows_of(const std::vector<Descriptor>& descriptors, const Descriptor& first, std::size_t root,
                                  std::size_t tensor) {
  const std::size_t members = descriptors.size();
  const OperationTraits& operation = traits(first.kind);
  if (operation.rows == Rows::a_part) {
    return scattered_rows(first.tensors[tensor].shape.front(), static_cast<int>(members));
  }
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < members; ++i) {
    const std::int64_t own = descriptors[i].tensors[tensor].shape.front();
    if (operation.rows == Rows::all) {
      rows.push_back(own);
    } else if (operation.root == Root::to) {
      rows.resize(rows.size() + members);
      rows[i * members + root] = own;
    } else if (operation.root == Root::from && i != root) {
      rows.resize(rows.size() + members);
    } else if (descriptors[i].splits.size() == members) {
      rows.insert(rows.end(), descriptors[i].splits.begin(), descriptors[i].splits.end());
    } else {
      rows.insert(rows.end(), members, own / static_cast<std::int64_t>(members));
    }
  }
  return rows;
}

/// Where the tensor lies on each member; empty if one has none, has it in private memory, or has it otherwise within a
/// line, where slices could not be cut on lines of all.
HeapPlaces places_of(const std::vector<bool>& has, const std::vector<Descriptor>& descriptors) {
  constexpr auto kLine = static_cast<std::int64_t>(kBucketLineBytes);
  HeapPlaces places;
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    const HeapPlace& place = descriptors[i].heap_place;
    const std::int64_t in_line = descriptors.front().heap_place.input % kLine;
    if (!has[i] || !place.is_known() || place.input % kLine != in_line || place.output % kLine != in_line) {
      return {};
    }
    places.push_back(place);
  }
  return places;
}

/// Why it cannot be done while a rank has joined, with values of that one which change nothing; empty if it can. What
/// hands out rows of each rank cannot: whoever counts on a row for each would go on with too few.
std::string obstacle_to_join(const Descriptor& asked) {
  const Joined joined = traits(asked.kind).joined;
  if (joined == Joined::itself) {
    return "";
  }
  if (joined == Joined::refused) {
    return "only allreduce and barrier go on without a rank";
  }
  const bool has_no_neutral =
      (asked.reduce_op == ReduceOp::product && asked.prescale != 1.0) ||
      ((asked.reduce_op == ReduceOp::min || asked.reduce_op == ReduceOp::max) && asked.prescale < 0);
  return has_no_neutral ? "with this prescale no value is neutral" : "";
}

}  // namespace

Coordinator::Coordinator(Group group, control::SettingsEntry settings, BucketLayout* layout)
    : group_(std::move(group)),
      moves_read_(static_cast<std::size_t>(group_.size())),
      calls_(group_.size()),
      joined_(static_cast<std::size_t>(group_.size())),
      ended_(static_cast<std::size_t>(group_.size())),
      layout_(layout),
      planner_(settings) {
  append(settings);
}

void Coordinator::append(control::Message entry) {
  ++position_;
  log_.push_back(std::move(entry));
}

Status Coordinator::on_request(int member, control::RequestMessage request, Nanoseconds now) {
  if (!left_.empty()) {
    return {};  // it can never complete; its rank fails it when it reads the LEFT entry
  }
  note_read(static_cast<std::size_t>(member), request.label);
  if (is_late(request) && !broken(Trap::no_label_drop)) {
    return {};  // its rank still has that entry before it, and moves or fails this request itself (trap 7)
  }
  Held& held = held_[request.name];
  if (held.count == 0) {
    held.has.assign(group_.ranks.size(), false);
    held.descriptors.resize(group_.ranks.size());
    held.call_sites.resize(group_.ranks.size());
    held.since = now;
    held.order = ++orders_;
  }
  const auto index = static_cast<std::size_t>(member);
  if (held.has[index]) {
    return Status::error(Code::internal,
                         "rank " + std::to_string(group_.ranks[index]) + " requested '" + request.name + "' twice");
  }
  held.has[index] = true;
  held.since = std::min(held.since, now - request.waited);
  held.descriptors[index] = std::move(request.descriptor);
  held.call_sites[index] = std::move(request.call_site);
  if (!request.planning_name.empty()) {
    held.planning_names.resize(group_.ranks.size());
    held.planning_names[index] = std::move(request.planning_name);
  }
  ++held.count;
  if (held.descriptors[index].kind == OpKind::barrier) {
    calls_.on_barrier(member, request.call_number);
    fail_beyond_barriers();
  } else {
    held.call_number = request.call_number;
  }
  held.asked = std::max(held.asked, request.position);
  const Nanoseconds deadline = later(now, request.timeout);
  if (deadline < held.deadline) {
    forget_deadline(request.name, held);
    held.deadline = deadline;
    deadlines_.emplace(deadline, request.name);
  }
  if (is_complete(held)) {
    Held complete = std::move(held);
    held_.erase(request.name);
    forget_deadline(request.name, complete);
    answer(request.name, complete);
    note_who_has_left();
  } else if (held.call_number != 0 && calls_.who_does_not_make(held.call_number)) {
    const Held beyond = std::move(held);
    held_.erase(request.name);
    forget_deadline(request.name, beyond);
    fail_beyond_barrier(request.name, beyond);
    note_who_has_left();
  } else if (fail_if_abandoned(request.name, held)) {
    forget_deadline(request.name, held);
    held_.erase(request.name);
    note_who_has_left();
  }
  return {};
}

/// An entry that concerns it was logged, which its rank had not read.
bool Coordinator::is_late(const control::RequestMessage& request) const {
  const auto is_late_for = [&](const std::string& name) {
    const auto moved = moved_at_.find(name);
    return moved != moved_at_.end() && request.label < moved->second;
  };
  return is_late_for(request.name) || (!request.planning_name.empty() && is_late_for(request.planning_name));
}

/// The last entry logged concerns the name.
void Coordinator::note_move(const std::string& name) {
  moved_at_[name] = moves_;
  in_order_of_moves_.emplace_back(moves_, name);
}

/// A member has read so many of these entries. What all have read concerns no request that is still to come.
void Coordinator::note_read(std::size_t member, std::uint64_t label) {
  const std::uint64_t before = std::exchange(moves_read_[member], std::max(moves_read_[member], label));
  if (in_order_of_moves_.empty() || before >= in_order_of_moves_.front().first) {
    return;
  }
  const std::uint64_t read_by_all = *std::min_element(moves_read_.begin(), moves_read_.end());
  while (!in_order_of_moves_.empty() && in_order_of_moves_.front().first <= read_by_all) {
    const auto& [move, name] = in_order_of_moves_.front();
    const auto found = moved_at_.find(name);
    if (found != moved_at_.end() && found->second == move) {
      moved_at_.erase(found);
    }
    in_order_of_moves_.pop_front();
  }
}

void Coordinator::forget_deadline(const std::string& name, const Held& held) {
  if (held.deadline != kNever) {
    deadlines_.erase({held.deadline, name});
  }
}

bool Coordinator::is_complete(const Held& held) const {
  for (std::size_t i = 0; i < held.has.size(); ++i) {
    if (!held.has[i] && !joined_[i]) {
      return false;
    }
  }
  return true;
}

void Coordinator::forget(const std::string& name) {
  const auto found = held_.find(name);
  if (found != held_.end()) {
    forget_deadline(name, found->second);
    held_.erase(found);
  }
}

/// What was requested of unnamed calls under these planning names: their ranks move it. Where the ranks' hints differ
/// a call stays held for the others.
void Coordinator::forget_calls(const std::set<std::string>& planning_names) {
  for (auto each = held_.begin(); each != held_.end();) {
    Held& held = each->second;
    for (std::size_t i = 0; i < held.has.size(); ++i) {
      if (held.has[i] && !held.planning_names.empty() && planning_names.contains(held.planning_names[i])) {
        held.has[i] = false;
        --held.count;
      }
    }
    if (held.count == 0) {
      forget_deadline(each->first, held);
      each = held_.erase(each);
    } else {
      ++each;
    }
  }
}

std::vector<int> Coordinator::ranks_without(const std::vector<bool>& has) const {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < has.size(); ++i) {
    if (!has[i]) {
      ranks.push_back(group_.ranks[i]);
    }
  }
  return ranks;
}

void Coordinator::answer(const std::string& name, Held& held) {
  const auto holder = static_cast<std::size_t>(std::find(held.has.begin(), held.has.end(), true) - held.has.begin());
  Descriptor first = held.descriptors[holder];
  for (std::size_t i = 0; i < held.descriptors.size(); ++i) {
    const Descriptor& other = held.descriptors[i];
    if (!held.has[i]) {
      continue;
    }
    const std::string what = disagreement(first, other);
    if (!what.empty()) {
      append_error(name, held, Code::mismatch, -1,
                   "the ranks disagree about the " + what + " of '" + name +
                       "': " + views_text(group_, held.has, held.descriptors, held.call_sites) +
                       (held.call_number == 0 ? ". Submit the same under one name on every rank"
                                              : ". Make the same unnamed calls in the same order on every "
                                                "rank"));
      return;
    }
  }
  const std::vector<int> joined = held.count < group_.size() ? ranks_without(held.has) : std::vector<int>();
  if (const std::string obstacle = joined.empty() ? "" : obstacle_to_join(first); !obstacle.empty()) {
    append_error(name, held, Code::mismatch, -1,
                 descriptor_text(first) + " named '" + name + "' cannot be done while " + ranks_text(joined) +
                     (joined.size() == 1 ? " has joined: " : " have joined: ") + obstacle);
    return;
  }
  const HeapPlaces places = places_of(held.has, held.descriptors);
  control::ExecEntry::Item item{name};
  item.places = places;
  for (std::size_t tensor = 0; makes_outputs(first.kind) && tensor < first.tensors.size(); ++tensor) {
    const auto root = static_cast<std::size_t>(has_root(first.kind) ? group_.index_of(first.root) : 0);
    item.rows.push_back(rows_of(held.descriptors, first, root, tensor));
  }
  if (held.count < group_.size()) {
    item.descriptor = first;
  }
  if (log_.empty() || !std::holds_alternative<control::ExecEntry>(log_.back())) {
    append(control::ExecEntry{});
  }
  std::get<control::ExecEntry>(log_.back()).items.push_back(std::move(item));
  if (plans()) {
    first.heap_place = {};
    plan_answer(name, held, first, places);
  }
}

/// The planner hears of an unnamed call under its place's name, if the ranks agree on its planning name: a hint, so
/// they may not.
void Coordinator::plan_answer(const std::string& name, const Held& held, const Descriptor& descriptor,
                              const HeapPlaces& places) {
  const std::set<std::string> planning_names = planning_names_of(held);
  if (planning_names.empty()) {
    planner_.on_exec(name, descriptor, places, held.asked, position_);
    if (planner_.waits_for_phase(name)) {
      put_in_force();
    }
    return;
  }
  for (const std::string& each : planning_names) {
    const std::uint32_t turn = bursts_.on_answer(each, payload_bytes(descriptor), held.asked, position_);
    const std::string place = CallBursts::place_name(each, turn);
    if (planning_names.size() > 1) {
      planner_.on_other_calls(place);
      continue;
    }
    planner_.on_exec(place, descriptor, places, held.asked, position_, each, turn);
    if (bursts_.is_uneven(each)) {
      planner_.demote(place);
    }
    if (bursts_.is_between(each) && planner_.waits_for_phase(place)) {
      put_in_force();
    }
  }
}

std::set<std::string> Coordinator::planning_names_of(const Held& held) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < held.planning_names.size(); ++i) {
    if (held.has[i] && !held.planning_names[i].empty()) {
      names.insert(held.planning_names[i]);
    }
  }
  return names;
}

void Coordinator::on_refused(int member, const control::RefusedMessage& message) {
  if (!left_.empty() || refused_ == message.name) {
    return;  // most calls that are refused are so on every rank, for the same reason
  }
  refused_ = message.name;
  Held held;
  if (const auto found = held_.find(message.name); found != held_.end()) {
    held = std::move(found->second);
    forget_deadline(message.name, held);
    held_.erase(found);
  }
  const int rank = group_.ranks[static_cast<std::size_t>(member)];
  append_error(message.name, held, Code::mismatch, rank,
               "rank " + std::to_string(rank) + " has made the call that meets this one, '" + message.name +
                   "', and it was refused there: " + message.text,
               {member});
}

void Coordinator::on_cancel(int member, const control::CancelMessage& message) {
  const auto index = static_cast<std::size_t>(member);
  const auto found = held_.find(message.name);
  if (found == held_.end() || !found->second.has[index]) {
    return;  // answered by now, or on its way into a bucket; the member asks again while it is under way
  }
  const Held cancelled = std::move(found->second);
  held_.erase(found);
  forget_deadline(message.name, cancelled);
  const int rank = group_.ranks[index];
  append_error(message.name, cancelled, Code::cancelled, rank,
               "rank " + std::to_string(rank) + " has cancelled " + descriptor_text(cancelled.descriptors[index]) +
                   " named '" + message.name + "' while it waited for " + ranks_text(missing_ranks(cancelled)) +
                   ": its program was interrupted there, or called ronde_cancel");
  note_who_has_left();
}

void Coordinator::append_error(const std::string& name, const Held& held, Code code, int failed_rank, std::string text,
                               const std::vector<int>& unconcerned) {
  control::ErrorEntry entry{name, code, failed_rank, std::move(text), {unconcerned.begin(), unconcerned.end()}};
  for (std::size_t i = 0; i < joined_.size(); ++i) {
    if (joined_[i]) {
      entry.joined.push_back(static_cast<std::int32_t>(i));
    }
  }
  append(std::move(entry));
  ++moves_;
  note_move(name);
  if (!plans()) {
    return;
  }
  planner_.on_error(name);
  for (const std::string& each : planning_names_of(held)) {
    const std::uint32_t turn = bursts_.on_answer(each, 0, held.asked, position_);
    planner_.on_error(CallBursts::place_name(each, turn));
  }
  if (planner_.waits_for_phase(name)) {
    put_in_force();
  }
}

void Coordinator::on_leave(int member, bool final) {
  if (left_.contains(member)) {
    return;
  }
  if (final) {
    log_left(member);
    return;
  }
  leaving_.insert(member);
  std::erase_if(held_, [this](const auto& entry) {
    const bool fails = fail_if_abandoned(entry.first, entry.second);
    if (fails) {
      forget_deadline(entry.first, entry.second);
    }
    return fails;
  });
  note_who_has_left();
}

bool Coordinator::fail_if_abandoned(const std::string& name, const Held& held) {
  for (int member : leaving_) {
    const auto index = static_cast<std::size_t>(member);
    if (!held.has[index]) {
      const int rank = group_.ranks[index];
      append_error(name, held, Code::peer_left, rank,
                   "'" + name + "': rank " + std::to_string(rank) + " has left the job (it shut down or exited)");
      return true;
    }
  }
  return false;
}

/// An unnamed call that a member does not make, since it has called a barrier. It concerns whoever may have requested
/// it as well: such a request is late by this entry's label, so its rank must fail it when it reads the entry.
void Coordinator::fail_beyond_barrier(const std::string& name, const Held& held) {
  const int member = *calls_.who_does_not_make(held.call_number);
  std::vector<int> makers;
  std::vector<int> unconcerned;
  for (std::size_t i = 0; i < held.has.size(); ++i) {
    if (held.has[i]) {
      makers.push_back(group_.ranks[i]);
    }
    if (calls_.does_not_make(static_cast<int>(i), held.call_number)) {
      unconcerned.push_back(static_cast<int>(i));
    }
  }
  const int rank = group_.ranks[static_cast<std::size_t>(member)];
  append_error(name, held, Code::mismatch, rank,
               ranks_text(makers) + (makers.size() == 1 ? " has" : " have") +
                   " made more calls without a name than rank " + std::to_string(rank) +
                   ", which called a barrier after " + std::to_string(calls_.made(member, held.call_number)) + ": '" +
                   name + "' has no counterpart there (" +
                   views_text(group_, held.has, held.descriptors, held.call_sites) +
                   "). Make the same unnamed calls on every rank before a barrier",
               unconcerned);
}

void Coordinator::fail_beyond_barriers() {
  std::vector<std::string> beyond;
  for (const auto& [name, held] : held_) {
    if (held.call_number != 0 && calls_.who_does_not_make(held.call_number)) {
      beyond.push_back(name);
    }
  }
  for (const std::string& name : beyond) {
    const Held held = std::move(held_.at(name));
    held_.erase(name);
    forget_deadline(name, held);
    fail_beyond_barrier(name, held);
  }
}

void Coordinator::note_who_has_left() {
  const std::set<int> leaving = leaving_;
  for (int member : leaving) {
    const bool waits = std::any_of(held_.begin(), held_.end(), [member](const auto& entry) {
      return entry.second.has[static_cast<std::size_t>(member)];
    });
    if (!waits) {
      log_left(member);
    }
  }
}

void Coordinator::log_left(int member) {
  leaving_.erase(member);
  left_.insert(member);
  append(control::LeftEntry{member});
  // A name held without a member that leaves has failed already. What is left here came from members of which one has
  // left for good: none can complete any more, every member fails its own when it reads the entry.
  held_.clear();
  deadlines_.clear();
  for (int other : std::exchange(leaving_, {})) {
    left_.insert(other);
    append(control::LeftEntry{other});
  }
  if (all_left()) {
    append(control::AllLeftEntry{});
  }
}

void Coordinator::on_time(Nanoseconds now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto [deadline, name] = *deadlines_.begin();
    deadlines_.erase(deadlines_.begin());
    const auto found = held_.find(name);
    const std::vector<int> missing = missing_ranks(found->second);
    const std::string waited = seconds_text(deadline - found->second.since);
    const std::string what = descriptor_text(found->second.descriptors[static_cast<std::size_t>(
        std::find(found->second.has.begin(), found->second.has.end(), true) - found->second.has.begin())]);
    const Held late = std::move(found->second);
    held_.erase(found);
    append_error(name, late, Code::timed_out, missing.front(),
                 "Timed out after " + waited + " in " + what + " named '" + name + "': " + ranks_text(missing) +
                     " did not submit it. Look at what " + ranks_text(missing) +
                     (missing.size() == 1 ? " was" : " were") +
                     " doing, or raise the timeout (RONDE_TIMEOUT_S) if it may take longer");
  }
}

Nanoseconds Coordinator::next_deadline() const { return deadlines_.empty() ? kNever : deadlines_.begin()->first; }

std::vector<int> Coordinator::missing_ranks(const Held& held) const {
  std::vector<int> missing;
  for (std::size_t i = 0; i < held.has.size(); ++i) {
    if (!held.has[i] && !joined_[i]) {
      missing.push_back(group_.ranks[i]);
    }
  }
  return missing;
}

std::vector<observe::Waiting> Coordinator::waiting() const {
  std::vector<observe::Waiting> all;
  for (const auto& [name, held] : held_) {
    observe::Waiting entry;
    entry.name = name;
    entry.since = held.since;
    for (std::size_t i = 0; i < held.has.size(); ++i) {
      if (held.has[i] || !joined_[i]) {
        (held.has[i] ? entry.ready : entry.missing).push_back(group_.ranks[i]);
      }
      if (held.has[i] && entry.what.empty()) {
        entry.what = descriptor_text(held.descriptors[i]);
      }
    }
    all.push_back(std::move(entry));
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.since != b.since ? a.since < b.since : a.name < b.name; });
  return all;
}

}  // namespace ronde::agreement
