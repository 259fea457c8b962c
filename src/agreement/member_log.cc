// What the entries of the log mean to a rank: the rows "log: ..." of the table.
#include "agreement/member.h"

namespace ronde::agreement {

void Member::step(LogRead event, Sink& sink) {
  if (over()) {
    return;
  }
  // During a break the log is not read: an entry may be about the next instance of a name whose present one still lies
  // in its bucket, about to succeed (trap 11).
  if (!reads_log() && !broken(Trap::read_log_while_draining)) {
    later_.push_back(std::move(event.entry));
    return;
  }
  read(std::move(event.entry), sink);
}

void Member::read(control::Message entry, Sink& sink) {
  ++position_;
  if (auto* exec = std::get_if<control::ExecEntry>(&entry)) {
    read_exec(std::move(*exec), sink);
  } else if (const auto* error = std::get_if<control::ErrorEntry>(&entry)) {
    read_error(*error, sink);
  } else if (const auto* prepare = std::get_if<control::PrepareEntry>(&entry)) {
    read_prepare(*prepare, sink);
  } else if (const auto* install = std::get_if<control::InstallEntry>(&entry)) {
    read_install(*install, sink);
  } else if (const auto* add = std::get_if<control::AddEntry>(&entry)) {
    read_add(*add, sink);
  } else if (const auto* retired = std::get_if<control::RetireEntry>(&entry)) {
    read_retire(*retired, sink);
  } else if (const auto* done = std::get_if<control::JoinDoneEntry>(&entry)) {
    if (join_ != Wish::sent || mode_ != Mode::learn) {
      sink.bug("all have joined, and this rank has not");
    }
    join_ = Wish::no;
    forgive_all();
    sink.join_done(*done);
  } else if (const auto* left = std::get_if<control::LeftEntry>(&entry)) {
    read_left(*left, sink);
  } else if (const auto* settings = std::get_if<control::SettingsEntry>(&entry)) {
    sink.settings(*settings);
  } else if (const auto* table = std::get_if<control::TableEntry>(&entry)) {
    sink.table(table->thresholds);
  } else if (std::holds_alternative<control::AllLeftEntry>(entry)) {
    all_left_ = true;
  } else {
    sink.bug("a message to the coordinator came to a member");
  }
}

/// What others have asked for and this rank has not, before all had joined: it never will, and its next request of that
/// name belongs to their next.
void Member::forgive_all() {
  for (std::uint32_t index = 0; index < names_.size(); ++index) {
    if (names_[index].owes) {
      names_[index].forgive();
      drop_if_idle(index);
    }
  }
}

void Member::read_exec(control::ExecEntry entry, Sink& sink) {
  for (control::ExecEntry::Item& item : entry.items) {
    const auto found = index_of_.find(item.name);
    if (found != index_of_.end() && names_[found->second].lane == Lane::sent) {
      count_lane(names_[found->second], Lane::executing);
      item.is_own = true;
    } else if (closed_ && !(join_ == Wish::sent && item.descriptor)) {
      sink.bug("agreed on '" + item.name + "', which this rank did not submit");
      return;
    }
  }
  sink.execute(std::move(entry.items));
}

void Member::step(const Executed& event, Sink& sink) {
  const auto found = index_of_.find(event.name);
  if (found == index_of_.end() || names_[found->second].lane != Lane::executing) {
    return;  // this rank took part for others, or has failed it already
  }
  const std::uint32_t index = found->second;
  count_lane(names_[index], Lane::none);
  drop_if_idle(index);
  try_join(sink);
}

void Member::read_error(const control::ErrorEntry& entry, Sink& sink) {
  ++label_;
  for (std::int32_t member : entry.joined) {
    if (member == own_) {
      return;
    }
  }
  if (is_refused_.contains(entry.name)) {
    return;  // nobody will come for it
  }
  const std::uint32_t index = intern(entry.name);
  Name& name = names_[index];
  Status status = Status::error(entry.code, entry.text).with_rank(entry.failed_rank).with_tensor(entry.name);
  switch (name.lane) {
    case Lane::sent:
      count_lane(name, Lane::none);
      sink.fail(entry.name, std::move(status));
      drop_if_idle(index);
      try_join(sink);
      return;
    case Lane::placed:
    case Lane::held: sink.bug("an error about '" + entry.name + "', which is not with the coordinator"); return;
    default: break;
  }
  // Not made yet (or the one before it is still under way): it fails when it comes, or it would meet the others' next
  // one, which is data of another step. A count: it may happen again before this rank comes (trap 10).
  if (!broken(Trap::no_owed_error) && (name.owed.empty() || !broken(Trap::owed_is_a_flag))) {
    name.owe(std::move(status));
  }
}

/// What is known of its names goes with it, where they are in no other bucket and nothing is under way.
void Member::read_retire(const control::RetireEntry& entry, Sink& sink) {
  for (std::uint32_t id : entry.buckets) {
    sink.retire(id);
    if (id >= buckets_.size() || buckets_[id].has_unnamed) {
      continue;
    }
    for (std::uint32_t index : std::exchange(buckets_[id].names, {})) {
      --names_[index].kept;
      drop_if_idle(index);
    }
    buckets_[id].agreed.members = {};
  }
}

void Member::read_prepare(const control::PrepareEntry& entry, Sink& sink) {
  const std::uint32_t id = entry.bucket.id;
  if (id < buckets_.size()) {
    sink.bug("a bucket is prepared twice");
    return;
  }
  buckets_.resize(id + 1);  // numbers that were never given to us stay empty
  Place& bucket = buckets_.back();
  bucket.agreed = entry.bucket;
  bucket.has_unnamed = has_unnamed(entry.bucket);
  for (const BucketMember& member : bucket.agreed.members) {
    bucket.names.push_back(intern(member.name));
    ++names_[bucket.names.back()].kept;
    names_[bucket.names.back()].planning_name = member.planning_name;
  }
  sink.prepare(bucket.agreed);
}

void Member::read_install(const control::InstallEntry& entry, Sink& sink) {
  ++label_;
  if (mode_ != Mode::learn || entry.epoch <= epoch_) {
    sink.bug("INSTALL before this rank has left the epoch before");
    return;
  }
  epoch_ = entry.epoch;
  mode_ = Mode::replay;
  put_in_force(entry.buckets, false, sink);
}

void Member::read_add(const control::AddEntry& entry, Sink& sink) {
  ++label_;
  if (entry.epoch != epoch_) {
    sink.bug("ADD of an epoch that this rank has not read the INSTALL of, or after a later one");
    return;
  }
  if (mode_ == Mode::replay) {
    put_in_force(entry.buckets, true, sink);
    return;
  }
  // The epoch is over here, and the coordinator has forgotten what it held of these names (trap 8).
  for (std::uint32_t id : entry.buckets) {
    for (std::uint32_t index : buckets_[id].names) {
      Name& name = names_[index];
      if (name.lane == Lane::sent && !broken(Trap::no_resend_after_add)) {
        send(name, sink);
      }
    }
  }
  for (std::uint32_t index : calls_sent_for(entry.buckets)) {
    if (!broken(Trap::no_resend_after_add)) {
      send(names_[index], sink);
    }
  }
}

/// What is outstanding of the buckets' names moves into its place: the coordinator forgets it at this entry. A bucket
/// that becomes full is published before a reason to break is looked at; both orders are right, since nothing is
/// decided before this rank is frozen.
void Member::put_in_force(const std::vector<std::uint32_t>& ids, bool added, Sink& sink) {
  for (std::uint32_t id : ids) {
    Place& bucket = buckets_[id];
    bucket.in_force = true;
    bucket.instances = 0;
    bucket.decided = 0;
    in_force_.push_back(id);
    for (std::uint32_t place = 0; place < bucket.names.size(); ++place) {
      names_[bucket.names[place]].bucket = id;
      names_[bucket.names[place]].place = place;
    }
  }
  begin_turns(ids);
  sink.install(epoch_, ids, added);
  Reason reason = Reason::none;
  for (std::uint32_t id : ids) {
    for (std::uint32_t place = 0; place < buckets_[id].names.size(); ++place) {
      Name& name = names_[buckets_[id].names[place]];
      if (name.lane != Lane::sent) {
        continue;
      }
      if (fits(buckets_[id].agreed.members[place], name.descriptor, own_)) {
        count_lane(name, Lane::none);
        put(id, place, name, 0, sink);
      } else {
        count_lane(name, Lane::held);
        reason = Reason::descriptor;
      }
    }
  }
  move_calls(ids, sink);
  if (join_ == Wish::sent || join_ == Wish::wanted) {
    reason = broken(Trap::join_does_not_break) ? reason : Reason::join;
  }
  if (leave_ != Wish::no || !closed_) {
    reason = Reason::leave;
  }
  if (reason != Reason::none) {
    freeze(reason, 0, sink);
  }
}

void Member::read_left(const control::LeftEntry& entry, Sink& sink) {
  const int rank = group_.ranks[static_cast<std::size_t>(entry.member)];
  const bool own = entry.member == own_;
  left_[static_cast<std::size_t>(entry.member)] = true;
  const Status reason = own ? Status::error(Code::cancelled, "this rank shut down while the request was pending")
                            : Status::error(Code::peer_left, "rank " + std::to_string(rank) +
                                                                 " has left the job (it shut down or exited)")
                                  .with_rank(rank);
  for (Name& name : names_) {
    if (name.lane == Lane::sent) {
      count_lane(name, Lane::none);
      sink.fail(name.text, reason.with_tensor(name.text).with_context("'" + name.text + "'"));
    }
  }
  if (closed_) {
    closed_ = reason;
  }
  if (mode_ == Mode::replay) {
    freeze(Reason::leave, 0, sink);
  }
}

}  // namespace ronde::agreement
