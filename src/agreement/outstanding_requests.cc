#include "agreement/outstanding_requests.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "agreement/traps.h"

namespace ronde::agreement {

void OutstandingRequests::send(RequestEntry& entry, Sink& sink) {
  table_.move(entry, Lane::sent);
  entry.deadline = sink.send_request({entry.name, entry.descriptor, label_, kNever, position_, {}, entry.planning_name},
                                     entry.deadline);
}

Lane OutstandingRequests::submit(RequestEntry& entry, Descriptor descriptor, Flag copied, bool replays, Sink& sink) {
  if (entry.bucket == kNowhere) {
    entry.descriptor = std::move(descriptor);
    send(entry, sink);
    return Lane::sent;
  }
  if (replays && fits(buckets_[entry.bucket].agreed.members[entry.place], descriptor, own_)) {
    put(entry.bucket, entry.place, entry, copied, sink);
    return Lane::placed;
  }
  entry.descriptor = std::move(descriptor);
  table_.move(entry, Lane::held);
  return Lane::held;
}

// ---- Unnamed calls

Lane OutstandingRequests::place_call(CallPlaces::Turns& turns, Call& call, Sink& sink) {
  const std::uint32_t at = CallPlaces::next_place(turns);
  const RequestEntry& entry = table_[at];
  if (!fits(buckets_[entry.bucket].agreed.members[entry.place], call.descriptor, own_)) {
    return Lane::none;
  }
  calls_.take(turns);
  if (entry.lane == Lane::none && !queues_.has_any(at)) {
    put_call(at, call, sink);
    return Lane::placed;
  }
  queues_.push(at, std::move(call));
  return Lane::queued;
}

template <typename S>
void OutstandingRequests::put_call(std::uint32_t at, Call& call, S& sink) {
  RequestEntry& entry = table_[at];
  entry.call = std::move(call.name);
  entry.deadline = call.deadline;
  entry.order = call.order;
  entry.memory_place = call.descriptor.memory_place;
  put(entry.bucket, entry.place, entry, 0, sink);
}

bool OutstandingRequests::has_queued(std::uint32_t id) const {
  const std::vector<std::uint32_t>& places = buckets_[id].names;
  return queues_.size() > 0 &&
         std::any_of(places.begin(), places.end(), [this](std::uint32_t place) { return queues_.has_any(place); });
}

void OutstandingRequests::place_queued(std::uint32_t id, Sink& sink) {
  for (const std::uint32_t place : buckets_[id].names) {
    if (std::optional<Call> call = queues_.pop(place)) {
      put_call(place, *call, sink);
    }
  }
}

/// The unnamed calls that are with the coordinator and planned in these buckets, in the order in which they were made.
std::vector<std::uint32_t> OutstandingRequests::calls_sent_for(const std::vector<std::uint32_t>& ids) const {
  std::unordered_set<std::string_view> planned;
  for (std::uint32_t id : ids) {
    for (const BucketMember& member : buckets_[id].agreed.members) {
      if (member.is_unnamed()) {
        planned.insert(member.planning_name);
      }
    }
  }
  std::vector<std::uint32_t> sent;
  if (planned.empty()) {
    return sent;
  }
  std::uint32_t index = 0;
  for (const RequestEntry& entry : table_.entries()) {
    if (entry.lane == Lane::sent && planned.contains(entry.planning_name)) {
      sent.push_back(index);
    }
    ++index;
  }
  std::sort(sent.begin(), sent.end(),
            [this](std::uint32_t a, std::uint32_t b) { return table_[a].order < table_[b].order; });
  return sent;
}

// ---- Buckets

bool OutstandingRequests::prepare(const Bucket& agreed) {
  BucketState* const bucket = buckets_.prepare(agreed);
  if (bucket == nullptr) {
    return false;
  }
  for (const BucketMember& member : agreed.members) {
    const std::uint32_t index = table_.intern(member.name);
    bucket->names.push_back(index);
    ++table_[index].kept;
    table_[index].planning_name = member.planning_name;
  }
  return true;
}

/// What is known of its names goes with it, where they are in no other bucket and nothing is under way.
void OutstandingRequests::retire(std::uint32_t id) {
  if (id >= buckets_.size() || buckets_[id].has_unnamed) {
    return;
  }
  for (std::uint32_t index : std::exchange(buckets_[id].names, {})) {
    --table_[index].kept;
    table_.drop_if_idle(index);
  }
  buckets_[id].agreed.members = {};
}

void OutstandingRequests::put_in_force(const std::vector<std::uint32_t>& ids) {
  buckets_.put_in_force(ids);
  for (std::uint32_t id : ids) {
    const BucketState& bucket = buckets_[id];
    for (std::uint32_t place = 0; place < bucket.names.size(); ++place) {
      in_place(bucket, place).bucket = id;
      in_place(bucket, place).place = place;
      const BucketMember& member = bucket.agreed.members[place];
      if (member.is_unnamed()) {
        calls_.begin(member.planning_name, member.turn, bucket.names[place]);
      }
    }
  }
}

bool OutstandingRequests::move_into_places(const std::vector<std::uint32_t>& ids, Sink& sink) {
  bool all_fit = true;
  for (std::uint32_t id : ids) {
    const BucketState& bucket = buckets_[id];
    for (std::uint32_t place = 0; place < bucket.names.size(); ++place) {
      RequestEntry& entry = in_place(bucket, place);
      if (entry.lane != Lane::sent) {
        continue;
      }
      if (fits(bucket.agreed.members[place], entry.descriptor, own_)) {
        table_.move(entry, Lane::none);
        put(id, place, entry, 0, sink);
      } else {
        table_.move(entry, Lane::held);
        all_fit = false;
      }
    }
  }
  // A call that does not fit is sent again, behind the entry.
  for (std::uint32_t index : calls_sent_for(ids)) {
    RequestEntry& entry = table_[index];
    Call call{entry.name, entry.descriptor, entry.deadline, entry.order};
    table_.move(entry, Lane::none);
    if (place_call(*calls_.find(entry.planning_name), call, sink) == Lane::none) {
      send(entry, sink);
    } else {
      table_.drop_if_idle(index);
    }
  }
  return all_fit;
}

void OutstandingRequests::send_again(const std::vector<std::uint32_t>& ids, Sink& sink) {
  for (std::uint32_t id : ids) {
    for (std::uint32_t index : buckets_[id].names) {
      if (table_[index].lane == Lane::sent) {
        send(table_[index], sink);
      }
    }
  }
  for (std::uint32_t index : calls_sent_for(ids)) {
    send(table_[index], sink);
  }
}

// ---- Back to the coordinator

void OutstandingRequests::hold_call(Call call, std::uint32_t place) {
  const std::uint32_t index = table_.intern(call.name);  // may move entries
  RequestEntry& entry = table_[index];
  entry.planning_name = table_[place].planning_name;
  entry.order = call.order;
  entry.deadline = call.deadline;
  entry.descriptor = std::move(call.descriptor);
  table_.move(entry, Lane::held);
  held_calls_.push_back(index);
}

/// Its request, with what the coordinator is to be told, out of its place.
void OutstandingRequests::hold_placed(std::uint32_t id, std::uint32_t place) {
  const std::uint32_t at = buckets_[id].names[place];
  RequestEntry& entry = table_[at];
  Descriptor descriptor = buckets_[id].agreed.members[place].descriptor;
  descriptor.memory_place = entry.memory_place;
  if (entry.call.empty()) {
    entry.descriptor = std::move(descriptor);
    table_.move(entry, Lane::held);
    return;
  }
  Call call{std::move(entry.call), std::move(descriptor), entry.deadline, entry.order};
  entry.call.clear();
  table_.move(entry, Lane::none);
  hold_call(std::move(call), at);
}

void OutstandingRequests::hold_placed(std::uint32_t id) {
  for (std::uint32_t place = 0; place < buckets_[id].names.size(); ++place) {
    hold_placed(id, place);
  }
}

void OutstandingRequests::leave_epoch(const Status& closed, Sink& sink) {
  for (std::uint32_t id : buckets_.in_force()) {
    const BucketState& bucket = buckets_[id];
    for (std::uint32_t place = 0; place < bucket.names.size(); ++place) {
      if (in_place(bucket, place).lane == Lane::placed) {
        hold_placed(id, place);
      }
      RequestEntry& entry = in_place(bucket, place);
      entry.bucket = kNowhere;
      if (entry.lane == Lane::held && closed) {
        send(entry, sink);
      } else if (entry.lane == Lane::held) {
        table_.move(entry, Lane::none);
        sink.fail(entry.name, closed.with_tensor(entry.name));
      }
    }
  }
  const std::uint32_t epoch = buckets_.epoch();
  buckets_.end_epoch();
  calls_.end();
  sink.ended(epoch);
  for (auto& [place, call] : queues_.take_all()) {
    hold_call(std::move(call), place);
  }
  send_held_calls(closed, sink);
}

void OutstandingRequests::send_held_calls(const Status& closed, Sink& sink) {
  std::vector<std::uint32_t> held = std::exchange(held_calls_, {});
  std::sort(held.begin(), held.end(),
            [this](std::uint32_t a, std::uint32_t b) { return table_[a].order < table_[b].order; });
  for (std::uint32_t index : held) {
    RequestEntry& entry = table_[index];
    if (entry.owed.empty() && closed) {
      send(entry, sink);
      continue;
    }
    Status error = closed.is_ok() ? entry.pay() : closed.with_tensor(entry.name);
    entry.forgive();
    table_.move(entry, Lane::none);
    sink.fail(entry.name, std::move(error));
    table_.drop_if_idle(index);
  }
}

// ---- Ends

void OutstandingRequests::fail_sent(const Status& reason, Sink& sink) {
  for (RequestEntry& entry : table_.entries()) {
    if (entry.lane == Lane::sent) {
      table_.move(entry, Lane::none);
      sink.fail(entry.name, reason.with_tensor(entry.name).with_context("'" + entry.name + "'"));
    }
  }
}

void OutstandingRequests::fail_all(const Status& reason, Sink& sink) {
  for (RequestEntry& entry : table_.entries()) {
    if (entry.lane != Lane::none) {
      table_.move(entry, Lane::none);
      sink.fail(entry.request_name(), reason.with_tensor(entry.request_name()));
      entry.call.clear();
    }
  }
  held_calls_.clear();
  for (const auto& [place, call] : queues_.take_all()) {
    sink.fail(call.name, reason.with_tensor(call.name));
  }
}

std::vector<std::string> OutstandingRequests::missing(std::uint32_t id) const {
  std::vector<std::string> names;
  for (std::uint32_t index : buckets_[id].names) {
    if (table_[index].lane == Lane::none) {
      names.push_back(table_[index].name);
    }
  }
  return names;
}

}  // namespace ronde::agreement
