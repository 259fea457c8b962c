#include "agreement/member.h"

#include <algorithm>

namespace ronde::agreement {

Member::Member(Group group, int own)
    : group_(std::move(group)),
      own_(own),
      lost_(static_cast<std::size_t>(group_.size())),
      left_(static_cast<std::size_t>(group_.size())) {}

std::uint32_t Member::intern(const std::string& name) {
  const auto next = unused_.empty() ? static_cast<std::uint32_t>(names_.size()) : unused_.back();
  const auto [found, is_new] = index_of_.emplace(name, next);
  if (!is_new) {
    return found->second;
  }
  if (unused_.empty()) {
    names_.emplace_back();
  } else {
    unused_.pop_back();
    names_[next] = {};
  }
  names_[next].text = name;
  return next;
}

/// A name that no bucket knows, of which nothing is outstanding or owed, is as good as one that never came.
void Member::drop_if_idle(std::uint32_t index) {
  const Name& name = names_[index];
  if (name.kept == 0 && name.lane == Lane::none && name.owed.empty() && index_of_.erase(name.text) > 0) {
    unused_.push_back(index);
  }
}

void Member::count_lane(Name& name, Lane lane) {
  sent_ += static_cast<std::size_t>(lane == Lane::sent) - static_cast<std::size_t>(name.lane == Lane::sent);
  outstanding_ += static_cast<std::size_t>(lane != Lane::none) - static_cast<std::size_t>(name.lane != Lane::none);
  name.lane = lane;
}

// ---- Submitting

Lane Member::step(Submit event, Sink& sink) {
  if (!event.planning_name.empty()) {
    return submit_call(std::move(event), sink);
  }
  const std::uint32_t index = intern(event.name);
  const Lane lane = submit(index, std::move(event.descriptor), event.deadline, 0, sink);
  drop_if_idle(index);
  return lane;
}

Lane Member::submit_slowly(const SubmitPlace& event, Sink& sink) {
  const Place& bucket = buckets_[event.bucket];
  Descriptor descriptor = bucket.agreed.members[event.place].descriptor;
  descriptor.heap_place = event.heap_place;
  // The name may lie in another bucket by now, whose flag may be the same: that one's memory has no copy.
  const std::uint32_t index = bucket.names[event.place];
  const Flag copied = names_[index].bucket == event.bucket ? event.copied : 0;
  return submit(index, std::move(descriptor), event.deadline, copied, sink);
}

Lane Member::submit(std::uint32_t index, Descriptor descriptor, Nanoseconds deadline, Flag copied, Sink& sink) {
  Name& name = names_[index];
  if (name.lane != Lane::none) {
    sink.bug("'" + name.text + "' was submitted while its last request was outstanding");
    return Lane::failed;
  }
  if (!closed_) {
    sink.fail(name.text, closed_.with_tensor(name.text));
    return Lane::failed;
  }
  if (join_ != Wish::no) {
    sink.fail(name.text, Status::error(Code::invalid_argument, "'" + name.text +
                                                                   "' was submitted after join; submit nothing until "
                                                                   "join has returned")
                             .with_tensor(name.text));
    return Lane::failed;
  }
  name.deadline = deadline;
  name.heap_place = descriptor.heap_place;
  if (mode_ == Mode::failing) {  // fails with the death's error, once that may be told
    name.descriptor = std::move(descriptor);
    count_lane(name, Lane::held);
    return Lane::held;
  }
  if (!name.owed.empty()) {
    sink.fail(name.text, name.pay());
    return Lane::failed;
  }
  if (name.bucket == kNowhere) {
    name.descriptor = std::move(descriptor);
    send(name, sink);
    return Lane::sent;
  }
  const bool fitting = fits(buckets_[name.bucket].agreed.members[name.place], descriptor, own_);
  if (mode_ == Mode::replay && fitting) {
    put(name.bucket, name.place, name, copied, sink);
    return Lane::placed;
  }
  name.descriptor = std::move(descriptor);
  count_lane(name, Lane::held);
  if (mode_ == Mode::replay) {
    freeze(Reason::descriptor, name.bucket, sink);
  }
  return Lane::held;
}

void Member::send(Name& name, Sink& sink) {
  count_lane(name, Lane::sent);
  name.deadline =
      sink.send_request({name.text, name.descriptor, label_, kNever, position_, {}, name.planning_name}, name.deadline);
}

// ---- Breaks

void Member::freeze(Reason reason, std::uint32_t bucket, Sink& sink) {
  mode_ = Mode::frozen;
  reason_ = reason;
  missing_ = reason == Reason::stall ? missing(bucket) : std::vector<std::string>();
  sink.set_frozen(epoch_, reason);
  if (broken(Trap::cancel_before_decision)) {
    for (Name& name : names_) {
      if (name.lane == Lane::placed) {
        name.descriptor = buckets_[name.bucket].agreed.members[name.place].descriptor;
        send(name, sink);
      }
    }
  }
}

void Member::step(const PeerFrozen& event, Sink& sink) {
  if (mode_ != Mode::replay) {
    return;  // learn: its INSTALL is on its way to me, or it is a break that is over; else: noted, or no matter any
             // more
  }
  if (event.epoch > epoch_) {
    sink.bug("a peer froze in an epoch that cannot have begun without this rank's END");
  } else if (event.epoch == epoch_) {
    freeze(Reason::peer, 0, sink);
  }
}

void Member::step(const LocalReason& event, Sink& sink) {
  if (mode_ == Mode::replay) {
    freeze(event.reason, event.bucket, sink);
  }
}

void Member::step(const AllFrozen& event, Sink& sink) {
  if (over()) {
    return;
  }
  if (mode_ != Mode::frozen) {
    sink.bug("a break is decided that this rank is not in, or for the second time");
    return;
  }
  mode_ = Mode::drain;
  undrained_ = 0;
  for (std::uint32_t id : in_force_) {
    Place& bucket = buckets_[id];
    bucket.decided = id < event.published.size() ? event.published[id] : 0;
    const bool own = bucket.decided == bucket.instances + 1 && bucket.published;
    if (bucket.decided != bucket.instances && !own) {
      sink.bug("the ranks have published more, or less, of a bucket than can be");
    }
    undrained_ += static_cast<std::size_t>(bucket.decided > bucket.instances);
  }
  if (undrained_ == 0) {
    leave_epoch(sink);
  }
}

void Member::after_instance(Place& bucket, Sink& sink) {
  if (mode_ == Mode::drain) {
    if (bucket.instances > bucket.decided) {
      sink.bug("an instance was completed that the break had cancelled");
    } else if (bucket.instances == bucket.decided && --undrained_ == 0) {
      leave_epoch(sink);
    }
  }
  if (mode_ == Mode::replay && bucket.instances == kMaxInstance) {
    freeze(Reason::wrap, bucket.agreed.id, sink);
  }
  try_join(sink);
}

/// What was cancelled, and what came during the break, goes to the coordinator; then END. Whoever reads END knows that
/// this rank touches the epoch's memory no more, and has its requests already (they came before it).
void Member::leave_epoch(Sink& sink) {
  mode_ = Mode::learn;
  control::EndMessage end{epoch_, 0, std::exchange(missing_, {}), {}, std::exchange(crowded_, {})};
  for (std::uint32_t id : in_force_) {
    Place& bucket = buckets_[id];
    end.instances = std::max(end.instances, bucket.instances);
    if (own_ == 0 && bucket.instances == 0) {
      end.unused.push_back(id);
    }
    for (std::uint32_t place = 0; place < bucket.names.size(); ++place) {
      if (names_[bucket.names[place]].lane == Lane::placed) {
        hold_placed(id, place);
      }
      Name& name = names_[bucket.names[place]];
      name.bucket = kNowhere;
      if (name.lane == Lane::held && closed_) {
        send(name, sink);
      } else if (name.lane == Lane::held) {
        count_lane(name, Lane::none);
        sink.fail(name.text, closed_.with_tensor(name.text));
      }
    }
    bucket.fill = 0;
    bucket.published = false;
    bucket.in_force = false;
  }
  in_force_.clear();
  turns_.clear();
  sink.ended(epoch_);
  hold_queues();
  send_held_calls(sink);
  std::sort(end.unused.begin(), end.unused.end());
  sink.send_end(std::move(end));
  if (join_ == Wish::wanted) {
    join_ = Wish::sent;
    sink.send_join();
  }
  if (leave_ == Wish::wanted) {
    leave_ = Wish::sent;
    sink.send_leave();
  }
  while (!later_.empty() && reads_log()) {
    control::Message entry = std::move(later_.front());
    later_.pop_front();
    read(std::move(entry), sink);
  }
}

// ---- Join and leave

void Member::step(const JoinCalled&, Sink& sink) {
  if (join_ != Wish::no) {
    sink.bug("join was called twice");
    return;
  }
  if (over()) {
    return;  // the engine fails the call as it fails every other
  }
  join_ = Wish::called;
  try_join(sink);
}

void Member::try_join(Sink& sink) {
  // JOIN must not overtake a request that a break sends again (trap 12).
  if (join_ != Wish::called || (outstanding_ > 0 && !broken(Trap::join_with_outstanding))) {
    return;
  }
  if (mode_ == Mode::learn || (mode_ == Mode::replay && broken(Trap::join_does_not_break))) {
    join_ = Wish::sent;
    sink.send_join();
  } else if (!over()) {
    join_ = Wish::wanted;
    if (mode_ == Mode::replay) {
      freeze(Reason::join, 0, sink);
    }
  }
}

void Member::step(const LeaveCalled&, Sink& sink) {
  if (leave_ != Wish::no || over()) {
    return;
  }
  leave_ = mode_ == Mode::learn ? Wish::sent : Wish::wanted;
  if (leave_ == Wish::sent) {
    sink.send_leave();
  } else if (mode_ == Mode::replay) {
    freeze(Reason::leave, 0, sink);
  }
}

// ---- Deaths and ends

void Member::step(const Lost& event, Sink& sink) {
  bool news = false;
  for (std::size_t i = 0; i < lost_.size(); ++i) {
    news |= event.ranks[i] && !lost_[i];
    lost_[i] = lost_[i] || event.ranks[i];
  }
  if (!news) {
    return;
  }
  if (mode_ != Mode::failed) {
    mode_ = Mode::failing;
  }
  if (broken(Trap::error_before_quiet)) {
    fail_all(Status::error(Code::peer_lost, "a rank died"), sink);
    return;
  }
  if (quiet_ || slices_ == 0) {
    quiet_ = true;
    sink.store_quiet(lost_);
  }
}

void Member::step(const AllQuiet& event, Sink& sink) {
  if (mode_ == Mode::failed) {
    return;
  }
  if (mode_ != Mode::failing || !quiet_) {
    sink.bug("all survivors are quiet, and this rank is not");
    return;
  }
  fail_all(event.reason, sink);
}

void Member::step(const Close& event, Sink& sink) { fail_all(event.reason, sink); }

void Member::fail_all(const Status& reason, Sink& sink) {
  mode_ = Mode::failed;
  closed_ = reason;
  later_.clear();
  for (Name& name : names_) {
    if (name.lane != Lane::none) {
      count_lane(name, Lane::none);
      const std::string& text = name.call.empty() ? name.text : name.call;
      sink.fail(text, reason.with_tensor(text));
      name.call.clear();
    }
  }
  held_calls_.clear();
  outstanding_ -= std::exchange(queued_, 0);
  for (const auto& [planning, queue] : std::exchange(queues_, {})) {
    for (const Call& call : queue) {
      sink.fail(call.name, reason.with_tensor(call.name));
    }
  }
}

// ---- Looking

std::optional<Member::Where> Member::where(const std::string& name) const {
  const auto found = index_of_.find(name);
  if (found == index_of_.end() || names_[found->second].bucket == kNowhere) {
    return std::nullopt;
  }
  return Where{names_[found->second].bucket, names_[found->second].place};
}

std::vector<std::string> Member::missing(std::uint32_t id) const {
  std::vector<std::string> names;
  for (std::uint32_t index : buckets_[id].names) {
    if (names_[index].lane == Lane::none) {
      names.push_back(names_[index].text);
    }
  }
  return names;
}

Lane Member::lane(const std::string& name) const {
  const auto found = index_of_.find(name);
  return found == index_of_.end() ? Lane::none : names_[found->second].lane;
}

std::size_t Member::owed(const std::string& name) const {
  const auto found = index_of_.find(name);
  return found == index_of_.end() ? 0 : names_[found->second].owed.size();
}

Nanoseconds Member::next_deadline() const {
  Nanoseconds next = kNever;
  for (const Name& name : names_) {
    if (name.lane == Lane::sent || name.lane == Lane::held) {
      next = std::min(next, name.deadline);
    }
  }
  return std::min(next, next_queued_deadline());
}

Nanoseconds Member::next_queued_deadline() const {
  Nanoseconds next = kNever;
  for (const auto& [planning, queue] : queues_) {
    next = std::min(next, queue.front().deadline);
  }
  return next;
}

std::optional<std::string> Member::overdue(Nanoseconds now, Nanoseconds grace) const {
  for (const Name& name : names_) {
    if (name.lane == Lane::sent && now >= later(name.deadline, grace)) {
      return name.text;
    }
  }
  return std::nullopt;
}

}  // namespace ronde::agreement
