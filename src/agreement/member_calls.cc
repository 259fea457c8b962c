// Unnamed calls: the rows of the table that speak of them.
//
// Ranks pair their unnamed calls by number: the n-th call of one rank is the n-th of every other, whatever a rank has
// waited for. The number is the call's name, which never comes again; by it the coordinator pairs what is sent to it.
// What comes back is the planning name, which a rank makes of the order of its calls alone. It is a hint at places in
// buckets and nothing rests on it: calls that find their planning name in force take its places in turn, or wait in a
// queue behind the call that has the place. Ranks whose hints differ publish different calls; the flag line says which,
// so every rank sees it before it reads any data. Then the instance is void on all of them, the epoch breaks, and the
// calls go to the coordinator by their numbers.
#include <algorithm>

#include "agreement/member.h"

namespace ronde::agreement {

Lane Member::submit_call(Submit event, Sink& sink) {
  const std::uint64_t order = ++calls_;
  const auto turns = turns_.find(event.planning_name);
  // Its own entry, if there is one, holds an error that is owed.
  if (mode_ == Mode::replay && closed_ && join_ == Wish::no && turns != turns_.end() &&
      !index_of_.contains(event.name)) {
    Call call{std::move(event.name), std::move(event.descriptor), event.deadline, order};
    Lane lane = Lane::none;
    if (place_call(turns->second, call, sink, lane)) {
      if (lane == Lane::queued) {
        note_queued(turns->second, sink);
      }
      return lane;
    }
    event.name = std::move(call.name);
    event.descriptor = std::move(call.descriptor);
  }
  // In a break too: what pairs by number may overtake what the break has yet to send.
  const std::uint32_t index = intern(event.name);
  names_[index].planning_name = std::move(event.planning_name);
  names_[index].order = order;
  const Lane lane = submit(index, std::move(event.descriptor), event.deadline, 0, sink);
  drop_if_idle(index);
  return lane;
}

/// Takes the place whose turn it is, or a position in the queue behind it; false if the call does not fit there. Then
/// it takes no turn, on any rank that makes the same call, and `call` is untouched.
bool Member::place_call(Turns& turns, Call& call, Sink& sink, Lane& lane) {
  const std::uint32_t at = turns.places[turns.next % turns.places.size()];
  const Name& name = names_[at];
  if (!fits(buckets_[name.bucket].agreed.members[name.place], call.descriptor, own_)) {
    return false;
  }
  ++turns.next;
  // What the program did long ago says nothing about what it does now: old calls fade, by half at a time.
  if (++turns.recent >= kCrowdedWindow * patience_) {
    turns.recent /= 2;
    turns.queued /= 2;
  }
  if (name.lane == Lane::none && !queues_.contains(at)) {
    put_call(at, call, sink);
    lane = Lane::placed;
    return true;
  }
  queues_[at].push_back(std::move(call));
  ++queued_;
  ++outstanding_;
  lane = Lane::queued;
  return true;
}

/// A program that made its calls one by one when they were planned, and makes lists of them now, would have these
/// reduced one by one for ever: in force nobody looks at bursts. So they are planned anew, which takes a break.
/// Programs whose threads call at once, say, gain nothing by that: each break takes twice as many calls as the one
/// before.
void Member::note_queued(Turns& turns, Sink& sink) {
  const auto is_crowded = [](const Turns& each) { return 4 * each.queued >= each.recent; };
  if (++turns.queued < patience_ || !is_crowded(turns)) {
    return;
  }
  patience_ *= 2;
  for (const auto& [planning_name, each] : turns_) {
    if (each.queued > 0 && is_crowded(each)) {
      crowded_.push_back(planning_name);
    }
  }
  freeze(Reason::crowded, 0, sink);
}

template <typename S>
void Member::put_call(std::uint32_t at, Call& call, S& sink) {
  Name& name = names_[at];
  name.call = std::move(call.name);
  name.deadline = call.deadline;
  name.order = call.order;
  name.heap_place = call.descriptor.heap_place;
  put(name.bucket, name.place, name, 0, sink);
}

bool Member::has_queued(std::uint32_t id) const {
  return queued_ > 0 && std::any_of(buckets_[id].names.begin(), buckets_[id].names.end(),
                                    [this](std::uint32_t index) { return queues_.contains(index); });
}

/// An instance is over: its places are free for who waits behind.
void Member::start_queued(std::uint32_t id, Sink& sink) {
  const std::vector<std::uint32_t>& places = buckets_[id].names;
  for (std::size_t i = 0; i < places.size() && mode_ == Mode::replay; ++i) {
    const auto found = queues_.find(places[i]);
    if (found == queues_.end()) {
      continue;
    }
    Call call = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) {
      queues_.erase(found);
    }
    --queued_;
    --outstanding_;
    put_call(places[i], call, sink);
  }
}

/// Ranks refuse most calls for one reason, each by itself. The error that the first brings about is owed to nobody who
/// has refused the call too, before it is read or after.
void Member::step(const Refused& event, Sink&) {
  constexpr std::size_t kMostRefused = 4096;  // the others' answers are on their way for so long at most
  if (const auto found = index_of_.find(event.name); found != index_of_.end()) {
    const std::uint32_t index = found->second;
    names_[index].forgive();
    drop_if_idle(index);
  }
  if (is_refused_.insert(event.name).second) {
    refused_.push_back(event.name);
  }
  if (refused_.size() > kMostRefused) {
    is_refused_.erase(refused_.front());
    refused_.pop_front();
  }
}

void Member::step(const Voided& event, Sink& sink) {
  Place& bucket = buckets_[event.bucket];
  if (over()) {
    return;
  }
  if (!bucket.published || bucket.stage != Stage::none) {
    sink.bug("a bucket is void that this rank has not published, or whose slice it has begun");
    return;
  }
  ++bucket.instances;
  bucket.fill = 0;
  bucket.published = false;
  for (std::uint32_t place = 0; place < bucket.names.size(); ++place) {
    hold_placed(event.bucket, place);
  }
  sink.voided(event.bucket);
  // Who pairs wrongly here would again and again: after a break the ranks begin anew at one position of the log.
  if (mode_ == Mode::replay) {
    freeze(Reason::other_calls, event.bucket, sink);
  } else {
    after_instance(bucket, sink);
  }
}

// ---- Back to the coordinator

void Member::hold_call(Call call, std::uint32_t place) {
  const std::uint32_t index = intern(call.name);  // may move names_
  Name& name = names_[index];
  name.planning_name = names_[place].planning_name;
  name.order = call.order;
  name.deadline = call.deadline;
  name.descriptor = std::move(call.descriptor);
  count_lane(name, Lane::held);
  held_calls_.push_back(index);
}

/// Its request, with what the coordinator is to be told, out of its place.
void Member::hold_placed(std::uint32_t id, std::uint32_t place) {
  const std::uint32_t at = buckets_[id].names[place];
  Name& name = names_[at];
  Descriptor descriptor = buckets_[id].agreed.members[place].descriptor;
  descriptor.heap_place = name.heap_place;
  if (name.call.empty()) {
    name.descriptor = std::move(descriptor);
    count_lane(name, Lane::held);
    return;
  }
  Call call{std::move(name.call), std::move(descriptor), name.deadline, name.order};
  name.call.clear();
  count_lane(name, Lane::none);
  hold_call(std::move(call), at);
}

void Member::hold_queues() {
  outstanding_ -= std::exchange(queued_, 0);
  for (auto& [place, queue] : std::exchange(queues_, {})) {
    for (Call& call : queue) {
      hold_call(std::move(call), place);
    }
  }
}

void Member::send_held_calls(Sink& sink) {
  std::vector<std::uint32_t> held = std::exchange(held_calls_, {});
  std::sort(held.begin(), held.end(),
            [this](std::uint32_t a, std::uint32_t b) { return names_[a].order < names_[b].order; });
  for (std::uint32_t index : held) {
    Name& name = names_[index];
    if (name.owed.empty() && closed_) {
      send(name, sink);
      continue;
    }
    Status error = closed_.is_ok() ? name.pay() : closed_.with_tensor(name.text);
    name.forgive();
    count_lane(name, Lane::none);
    sink.fail(name.text, std::move(error));
    drop_if_idle(index);
  }
}

// ---- INSTALL and ADD

/// The unnamed calls that are with the coordinator and planned in these buckets, in the order in which they were made.
std::vector<std::uint32_t> Member::calls_sent_for(const std::vector<std::uint32_t>& ids) const {
  std::unordered_map<std::string_view, bool> planned;
  for (std::uint32_t id : ids) {
    for (const BucketMember& member : buckets_[id].agreed.members) {
      if (member.is_unnamed()) {
        planned.emplace(member.planning_name, true);
      }
    }
  }
  std::vector<std::uint32_t> calls;
  for (std::uint32_t index = 0; index < names_.size() && !planned.empty(); ++index) {
    if (names_[index].lane == Lane::sent && planned.contains(names_[index].planning_name)) {
      calls.push_back(index);
    }
  }
  std::sort(calls.begin(), calls.end(),
            [this](std::uint32_t a, std::uint32_t b) { return names_[a].order < names_[b].order; });
  return calls;
}

void Member::begin_turns(const std::vector<std::uint32_t>& ids) {
  for (std::uint32_t id : ids) {
    const std::vector<BucketMember>& members = buckets_[id].agreed.members;
    for (std::size_t place = 0; place < members.size(); ++place) {
      if (members[place].is_unnamed()) {
        Turns& turns = turns_[members[place].planning_name];
        turns.places.resize(std::max<std::size_t>(turns.places.size(), members[place].turn + 1));
        turns.places[members[place].turn] = buckets_[id].names[place];
      }
    }
  }
}

/// The coordinator has forgotten them. One that does not fit is sent again, behind the entry.
void Member::move_calls(const std::vector<std::uint32_t>& ids, Sink& sink) {
  for (std::uint32_t index : calls_sent_for(ids)) {
    Name& name = names_[index];
    Call call{name.text, name.descriptor, name.deadline, name.order};
    Turns& turns = turns_.find(name.planning_name)->second;
    count_lane(name, Lane::none);
    Lane lane = Lane::none;
    if (place_call(turns, call, sink, lane)) {
      drop_if_idle(index);
    } else {
      send(names_[index], sink);
    }
  }
}

}  // namespace ronde::agreement
