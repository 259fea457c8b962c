#include "agreement/member.h"

#include <algorithm>
#include <utility>

namespace ronde::agreement {

Member::Member(Group group, int own)
    : group_(std::move(group)),
      own_(own),
      requests_(own),
      lost_(static_cast<std::size_t>(group_.size())),
      left_(static_cast<std::size_t>(group_.size())) {}

// ---- Submitting

Lane Member::step(Submit event, Sink& sink) {
  if (!event.planning_name.empty()) {
    return submit_call(std::move(event), sink);
  }
  const std::uint32_t index = requests_.table().intern(event.name);
  const Lane lane = submit(index, std::move(event.descriptor), event.deadline, 0, sink);
  requests_.table().drop_if_idle(index);
  return lane;
}

Lane Member::submit_slowly(const SubmitPlace& event, Sink& sink) {
  const BucketState& bucket = buckets()[event.bucket];
  Descriptor descriptor = bucket.agreed.members[event.place].descriptor;
  descriptor.memory_place = event.memory_place;
  // The name may lie in another bucket by now, whose flag may be the same: that one's memory has no copy.
  const Flag copied = requests_.in_place(bucket, event.place).bucket == event.bucket ? event.copied : 0;
  return submit(bucket.names[event.place], std::move(descriptor), event.deadline, copied, sink);
}

Lane Member::submit(std::uint32_t index, Descriptor descriptor, Nanoseconds deadline, Flag copied, Sink& sink) {
  RequestEntry& entry = requests_.table()[index];
  if (entry.lane != Lane::none) {
    sink.bug("'" + entry.name + "' was submitted while its last request was outstanding");
    return Lane::failed;
  }
  if (!closed_) {
    sink.fail(entry.name, closed_.with_tensor(entry.name));
    return Lane::failed;
  }
  if (join_ != Wish::no) {
    sink.fail(entry.name, Status::error(Code::invalid_argument, "'" + entry.name +
                                                                    "' was submitted after join; submit nothing until "
                                                                    "join has returned")
                              .with_tensor(entry.name));
    return Lane::failed;
  }
  entry.deadline = deadline;
  entry.memory_place = descriptor.memory_place;
  if (mode_ == Mode::failing) {  // fails with the death's error, once that may be told
    entry.descriptor = std::move(descriptor);
    requests_.table().move(entry, Lane::held);
    return Lane::held;
  }
  if (!entry.owed.empty()) {
    sink.fail(entry.name, entry.pay());
    return Lane::failed;
  }
  const Lane lane = requests_.submit(entry, std::move(descriptor), copied, mode_ == Mode::replay, sink);
  if (lane == Lane::held && mode_ == Mode::replay) {
    freeze(Reason::descriptor, entry.bucket, sink);
  }
  return lane;
}

Lane Member::submit_call(Submit event, Sink& sink) {
  const std::uint64_t order = requests_.calls().next_order();
  CallPlaces::Turns* const turns = requests_.calls().find(event.planning_name);
  // Its own entry, if there is one, holds an error that is owed.
  if (mode_ == Mode::replay && closed_ && join_ == Wish::no && turns != nullptr &&
      !requests_.table().contains(event.name)) {
    Call call{std::move(event.name), std::move(event.descriptor), event.deadline, order};
    const Lane lane = requests_.place_call(*turns, call, sink);
    if (lane == Lane::queued && requests_.calls().note_wait(*turns)) {
      freeze(Reason::crowded, 0, sink);
    }
    if (lane != Lane::none) {
      return lane;
    }
    event.name = std::move(call.name);
    event.descriptor = std::move(call.descriptor);
  }
  // In a break too: what pairs by number may overtake what the break has yet to send.
  const std::uint32_t index = requests_.table().intern(event.name);
  requests_.table()[index].planning_name = std::move(event.planning_name);
  requests_.table()[index].order = order;
  const Lane lane = submit(index, std::move(event.descriptor), event.deadline, 0, sink);
  requests_.table().drop_if_idle(index);
  return lane;
}

/// Ranks refuse most calls for one reason, each by itself. The error that the first brings about is owed to nobody who
/// has refused the call too, before it is read or after.
void Member::step(const Refused& event, Sink&) {
  if (const std::optional<std::uint32_t> found = requests_.table().find(event.name)) {
    requests_.table()[*found].forgive();
    requests_.table().drop_if_idle(*found);
  }
  refused_.add(event.name);
}

// ---- Breaks

void Member::freeze(Reason reason, std::uint32_t bucket, Sink& sink) {
  mode_ = Mode::frozen;
  reason_ = reason;
  missing_ = reason == Reason::stall ? missing(bucket) : std::vector<std::string>();
  ordered_ ? sink.send_frozen(epoch(), reason) : sink.set_frozen(epoch(), reason);
  if (ordered_ && broken(Trap::freeze_is_break)) {
    drain(buckets().decide_launched(), sink);
    return;
  }
  if (broken(Trap::cancel_before_decision)) {
    for (RequestEntry& entry : requests_.table().entries()) {
      if (entry.lane == Lane::placed) {
        entry.descriptor = buckets()[entry.bucket].agreed.members[entry.place].descriptor;
        requests_.send(entry, sink);
      }
    }
  }
}

void Member::step(const PeerFrozen& event, Sink& sink) {
  if (mode_ != Mode::replay) {
    return;  // learn: its INSTALL is on its way to me, or it is a break that is over; else: noted, or no matter any
             // more
  }
  if (event.epoch > epoch()) {
    sink.bug("a peer froze in an epoch that cannot have begun without this rank's END");
  } else if (event.epoch == epoch()) {
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
  drain(buckets().decide(event.published), sink);
}

/// It is decided what is finished.
void Member::drain(bool can_be, Sink& sink) {
  mode_ = Mode::drain;
  if (!can_be) {
    sink.bug("the ranks have published more, or less, of a bucket than can be");
  }
  if (buckets().is_drained()) {
    leave_epoch(sink);
  }
}

void Member::step(const Voided& event, Sink& sink) {
  BucketState& bucket = buckets()[event.bucket];
  if (over()) {
    return;
  }
  if (!bucket.published || bucket.stage != Stage::none) {
    sink.bug("a bucket is void that this rank has not published, or whose slice it has begun");
    return;
  }
  bucket.end_instance();
  requests_.hold_placed(event.bucket);
  sink.voided(event.bucket);
  // Who pairs wrongly here would again and again: after a break the ranks begin anew at one position of the log.
  if (mode_ == Mode::replay) {
    freeze(Reason::other_calls, event.bucket, sink);
  } else {
    after_instance(bucket, sink);
  }
}

void Member::after_instance(const BucketState& bucket, Sink& sink) {
  if (mode_ == Mode::drain) {
    if (bucket.instances > bucket.decided) {
      sink.bug("an instance was completed that the break had cancelled");
    } else if (buckets().count_drained(bucket)) {
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
  mode_ = Mode::negotiate;
  control::EndMessage end{
      epoch(), buckets().most_instances(), std::exchange(missing_, {}), {}, requests_.calls().take_crowded()};
  if (own_ == 0) {
    end.unused = buckets().unused();
  }
  requests_.leave_epoch(closed_, sink);
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
  if (join_ != Wish::called || (has_outstanding() && !broken(Trap::join_with_outstanding))) {
    return;
  }
  if (mode_ == Mode::negotiate || (mode_ == Mode::replay && broken(Trap::join_does_not_break))) {
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
  leave_ = mode_ == Mode::negotiate ? Wish::sent : Wish::wanted;
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
  if (quiet_ || !buckets().has_slices()) {
    store_quiet(sink);
  }
}

/// This rank writes nothing any more that others read.
void Member::store_quiet(Sink& sink) {
  quiet_ = true;
  sink.store_quiet(lost_);
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
  requests_.fail_all(reason, sink);
}

// ---- The log

void Member::step(LogRead event, Sink& sink) {
  if (over()) {
    return;
  }
  // During a break the log is not read: an entry may be about the next instance of a name whose present one still lies
  // in its bucket, about to succeed (trap 11). In an ordered group no such entry comes before BREAK.
  if (!reads_log() && !broken(Trap::read_log_while_draining)) {
    later_.push_back(std::move(event.entry));
    return;
  }
  read(std::move(event.entry), sink);
}

void Member::read(control::Message entry, Sink& sink) {
  requests_.count_entry();
  if (auto* exec = std::get_if<control::ExecEntry>(&entry)) {
    read_exec(std::move(*exec), sink);
  } else if (const auto* error = std::get_if<control::ErrorEntry>(&entry)) {
    read_error(*error, sink);
  } else if (const auto* prepare = std::get_if<control::PrepareEntry>(&entry)) {
    if (requests_.prepare(prepare->bucket)) {
      sink.prepare(prepare->bucket);
    } else {
      sink.bug("a bucket is prepared twice");
    }
  } else if (const auto* install = std::get_if<control::InstallEntry>(&entry)) {
    read_install(*install, sink);
  } else if (const auto* add = std::get_if<control::AddEntry>(&entry)) {
    read_add(*add, sink);
  } else if (const auto* launch = std::get_if<control::LaunchEntry>(&entry)) {
    read_launch(*launch, sink);
  } else if (const auto* ended = std::get_if<control::BreakEntry>(&entry)) {
    read_break(*ended, sink);
  } else if (const auto* retired = std::get_if<control::RetireEntry>(&entry)) {
    for (std::uint32_t id : retired->buckets) {
      sink.retire(id);
      requests_.retire(id);
    }
  } else if (const auto* done = std::get_if<control::JoinDoneEntry>(&entry)) {
    read_join_done(*done, sink);
  } else if (const auto* left = std::get_if<control::LeftEntry>(&entry)) {
    read_left(*left, sink);
  } else if (const auto* settings = std::get_if<control::SettingsEntry>(&entry)) {
    ordered_ = settings->ordered;
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
void Member::read_join_done(const control::JoinDoneEntry& entry, Sink& sink) {
  // All may have joined before they read an INSTALL, at which an ordered group is frozen and reads on.
  if (join_ != Wish::sent || (mode_ != Mode::negotiate && mode_ != Mode::frozen)) {
    sink.bug("all have joined, and this rank has not");
  }
  join_ = Wish::no;
  requests_.table().forgive_all();
  sink.join_done(entry);
}

void Member::read_exec(control::ExecEntry entry, Sink& sink) {
  for (control::ExecEntry::Item& item : entry.items) {
    const std::optional<std::uint32_t> found = requests_.table().find(item.name);
    if (found && requests_.table()[*found].lane == Lane::sent) {
      requests_.table().move(requests_.table()[*found], Lane::executing);
      item.is_own = true;
    } else if (closed_ && !(join_ == Wish::sent && item.descriptor)) {
      sink.bug("agreed on '" + item.name + "', which this rank did not submit");
      return;
    }
  }
  sink.execute(std::move(entry.items));
}

void Member::step(const Executed& event, Sink& sink) {
  const std::optional<std::uint32_t> found = requests_.table().find(event.name);
  if (!found || requests_.table()[*found].lane != Lane::executing) {
    return;  // this rank took part for others, or has failed it already
  }
  requests_.table().move(requests_.table()[*found], Lane::none);
  requests_.table().drop_if_idle(*found);
  try_join(sink);
}

void Member::read_error(const control::ErrorEntry& entry, Sink& sink) {
  requests_.count_labelled_entry();
  for (std::int32_t member : entry.joined) {
    if (member == own_) {
      return;
    }
  }
  if (refused_.contains(entry.name)) {
    return;  // nobody will come for it
  }
  RequestTable& table = requests_.table();
  const std::uint32_t index = table.intern(entry.name);
  RequestEntry& request = table[index];
  Status status = Status::error(entry.code, entry.text).with_rank(entry.failed_rank).with_tensor(entry.name);
  switch (request.lane) {
    case Lane::sent:
      table.move(request, Lane::none);
      sink.fail(entry.name, std::move(status));
      table.drop_if_idle(index);
      try_join(sink);
      return;
    case Lane::placed:
    case Lane::held: sink.bug("an error about '" + entry.name + "', which is not with the coordinator"); return;
    default: break;
  }
  // Not made yet (or the one before it is still under way): it fails when it comes, or it would meet the others' next
  // one, which is data of another step. A count: it may happen again before this rank comes (trap 10).
  if (!broken(Trap::no_owed_error) && (request.owed.empty() || !broken(Trap::owed_is_a_flag))) {
    request.owe(std::move(status));
  }
}

void Member::read_install(const control::InstallEntry& entry, Sink& sink) {
  requests_.count_labelled_entry();
  if (mode_ != Mode::negotiate || !buckets().begin_epoch(entry.epoch)) {
    sink.bug("INSTALL before this rank has left the epoch before");
    return;
  }
  mode_ = Mode::replay;
  put_in_force(entry.buckets, false, sink);
}

void Member::read_add(const control::AddEntry& entry, Sink& sink) {
  requests_.count_labelled_entry();
  if (entry.epoch != epoch()) {
    sink.bug("ADD of an epoch that this rank has not read the INSTALL of, or after a later one");
    return;
  }
  if (mode_ == Mode::replay) {
    put_in_force(entry.buckets, true, sink);
  } else if (!broken(Trap::no_resend_after_add)) {
    requests_.send_again(entry.buckets, sink);  // the epoch is over here (trap 8)
  }
}

/// What is outstanding of the buckets' names moves into its place: the coordinator forgets it at this entry. A bucket
/// that becomes full is published before a reason to break is looked at; both orders are right, since nothing is
/// decided before this rank is frozen.
void Member::put_in_force(const std::vector<std::uint32_t>& ids, bool added, Sink& sink) {
  requests_.put_in_force(ids);
  sink.install(epoch(), ids, added);
  Reason reason = requests_.move_into_places(ids, sink) ? Reason::none : Reason::descriptor;
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

void Member::read_launch(const control::LaunchEntry& entry, Sink& sink) {
  if (entry.epoch != epoch() || (mode_ != Mode::replay && mode_ != Mode::frozen)) {
    sink.bug("LAUNCH of an epoch that does not run here");
    return;
  }
  for (std::uint32_t id : entry.buckets) {
    if (!BucketProgress::launch(buckets()[id])) {
      sink.bug("LAUNCH of an instance that this rank has not published, or for the second time");
      return;
    }
    sink.launch(id);
  }
}

/// What the log has launched before this is finished by all, and nothing else: no rank needs to know what the others
/// have published.
void Member::read_break(const control::BreakEntry& entry, Sink& sink) {
  if (entry.epoch != epoch() || (mode_ != Mode::replay && mode_ != Mode::frozen)) {
    sink.bug("BREAK of an epoch that does not run here");
    return;
  }
  if (mode_ == Mode::replay) {
    reason_ = Reason::peer;
  }
  drain(buckets().decide_launched(), sink);
}

void Member::read_left(const control::LeftEntry& entry, Sink& sink) {
  const int rank = group_.ranks[static_cast<std::size_t>(entry.member)];
  const bool own = entry.member == own_;
  left_[static_cast<std::size_t>(entry.member)] = true;
  const Status reason = own ? Status::error(Code::cancelled, "this rank shut down while the request was pending")
                            : Status::error(Code::peer_left, "rank " + std::to_string(rank) +
                                                                 " has left the job (it shut down or exited)")
                                  .with_rank(rank);
  requests_.fail_sent(reason, sink);
  if (closed_) {
    closed_ = reason;
  }
  if (mode_ == Mode::replay) {
    freeze(Reason::leave, 0, sink);
  }
}

// ---- Looking

std::optional<Member::Where> Member::where(const std::string& name) const {
  const std::optional<std::uint32_t> found = requests_.table().find(name);
  if (!found || requests_.table()[*found].bucket == OutstandingRequests::kNowhere) {
    return std::nullopt;
  }
  const RequestEntry& entry = requests_.table()[*found];
  return Where{entry.bucket, entry.place};
}

Lane Member::lane(const std::string& name) const {
  const std::optional<std::uint32_t> found = requests_.table().find(name);
  return found ? requests_.table()[*found].lane : Lane::none;
}

std::size_t Member::owed(const std::string& name) const {
  const std::optional<std::uint32_t> found = requests_.table().find(name);
  return found ? requests_.table()[*found].owed.size() : 0;
}

Nanoseconds Member::next_deadline() const {
  return std::min(requests_.table().next_deadline(), next_queued_deadline());
}

}  // namespace ronde::agreement
