// What the member wants done, in the world of the interleaving test.
#pragma once

#include "agreement/testing/world_state.h"

namespace ronde::agreement::testing_world {

inline void RankSink::publish(std::uint32_t bucket, Flag flag) {
  if (broken(Trap::no_publish_gate) && world_.dice_.one_in(2)) {
    world_.rank(rank_).late_publishes.emplace_back(bucket, flag);
    return;
  }
  world_.note(rank_, "publishes bucket " + std::to_string(bucket) + " instance " + std::to_string(flag & kMaxInstance));
  world_.store_pub(rank_, bucket, flag);
}

inline void RankSink::complete(std::uint32_t bucket, std::uint64_t instance) {
  const Member& member = world_.rank(rank_).member;
  world_.read_results(rank_, bucket, make_flag(member.epoch(), instance));
  world_.memory(rank_, bucket).exposed = 0;
  for (std::size_t place = 0; place < member.bucket(bucket).members.size(); ++place) {
    world_.finish(rank_, world_.request_in(rank_, bucket, place), Code::ok);
  }
}

inline void RankSink::voided(std::uint32_t bucket) {
  world_.note(rank_, "voids bucket " + std::to_string(bucket));
  world_.count(Row::voided, world_.rank(rank_).member.mode());
  world_.memory(rank_, bucket).exposed = 0;
}

inline void RankSink::copy_in(std::uint32_t bucket, std::uint32_t place, std::uint64_t instance) {
  const Bucket& agreed = world_.bucket(rank_, bucket);
  std::vector<Sequence>& slot = world_.memory(rank_, bucket).input[instance % 2];
  slot.resize(agreed.members.size(), kNothing);
  slot[place] = world_.rank(rank_).submissions[world_.request_in(rank_, bucket, place)].current;
}

inline void RankSink::set_frozen(std::uint32_t epoch, Reason reason) {
  world_.note(rank_, "freezes epoch " + std::to_string(epoch) + ", reason " + std::to_string(static_cast<int>(reason)));
  world_.write(rank_, {Update::Kind::frozen, 0, epoch, {}, {}});
}

inline void RankSink::send_frozen(std::uint32_t epoch, Reason reason) {
  world_.note(rank_, "asks for a break of epoch " + std::to_string(epoch) + ", reason " +
                         std::to_string(static_cast<int>(reason)));
  world_.rank(rank_).requests.emplace_back(control::FrozenMessage{epoch});
}

inline void RankSink::store_quiet(const RankSet& lost) {
  world_.note(rank_, "is quiet");
  world_.count(Row::quiet_stored, world_.rank(rank_).member.mode());
  world_.write(rank_, {Update::Kind::quiet, 0, 0, {}, lost});
}

inline Nanoseconds RankSink::send_request(control::RequestMessage message, Nanoseconds deadline) {
  message.timeout = kSecond;
  world_.rank(rank_).last_request = world_.rank(rank_).pc;
  world_.note(rank_, "requests '" + message.name + "' with label " + std::to_string(message.label));
  world_.rank(rank_).requests.emplace_back(std::move(message));
  return deadline;
}
inline void RankSink::send_end(control::EndMessage message) {
  world_.count(Row::epoch_left, Mode::drain);
  world_.note(rank_, "ends epoch " + std::to_string(message.epoch));
  world_.rank(rank_).requests.emplace_back(std::move(message));
}
inline void RankSink::send_join() {
  world_.note(rank_, "joins");
  world_.rank(rank_).requests.emplace_back(control::JoinMessage{});
}
inline void RankSink::send_leave() {
  world_.note(rank_, "leaves");
  world_.rank(rank_).requests.emplace_back(control::LeaveMessage{});
}

inline void RankSink::execute(std::vector<control::ExecEntry::Item> items) {
  Rank& own = world_.rank(rank_);
  for (const control::ExecEntry::Item& item : items) {
    const std::size_t index = own.executions++;
    if (world_.is_ordered()) {
      own.to_launch.push_back({false, index});
    }
    if (world_.executions_.size() == index) {
      world_.executions_.push_back({world_.name_index(item.name), std::vector<Execution::Part>(world_.size())});
    }
    const bool takes_part = own.member.lane(item.name) == Lane::executing;
    if (world_.executions_[index].name != world_.name_index(item.name)) {
      world_.violated("the ranks execute in different orders");
    }
    world_.executions_[index].parts[rank_].sequence =
        takes_part ? own.submissions[world_.name_index(item.name)].current : kNothing;
  }
}

inline void RankSink::launch(std::uint32_t bucket) {
  Rank& own = world_.rank(rank_);
  own.to_launch.push_back({true, bucket, own.member.next_flag(bucket)});
}

inline void RankSink::prepare(const Bucket& bucket) {
  const auto [known, is_new] = world_.known_.emplace(bucket.id, bucket);
  if (!(known->second == bucket)) {
    world_.violated("bucket " + std::to_string(bucket.id) + " is not the same on all ranks");
  }
  if (is_new && !world_.layouts_.insert(bucket.layout).second) {
    world_.violated("two buckets lie in one place");
  }
  const bool refused = world_.scenario_.refusals > 0 && world_.dice_.one_in(3);
  world_.scenario_.refusals -= refused ? 1 : 0;
  if (refused) {
    world_.rank(rank_).refused.insert(bucket.id);
    note_free(bucket);
  }
  world_.rank(rank_).requests.emplace_back(control::PreparedMessage{bucket.id, refused});
}

inline void RankSink::install(std::uint32_t epoch, std::span<const std::uint32_t> buckets, bool added) {
  Rank& own = world_.rank(rank_);
  for (std::uint32_t id : buckets) {
    world_.note(rank_, std::string(added ? "adds" : "installs") + " bucket " + std::to_string(id) + " of " +
                           std::to_string(own.member.bucket(id).members.size()) + " in epoch " + std::to_string(epoch));
    for (const BucketMember& place : own.member.bucket(id).members) {
      if (!place.is_unnamed()) {
        own.planned[world_.name_index(place.name)] = true;
      }
    }
  }
}

inline void RankSink::ended(std::uint32_t) {
  for (Memory& memory : world_.rank(rank_).memory) {
    memory.exposed = 0;
  }
}

inline void RankSink::retire(std::uint32_t id) {
  if (world_.rank(rank_).refused.contains(id)) {
    return;
  }
  const Bucket& bucket = world_.bucket(rank_, id);
  note_free(bucket);
  world_.rank(rank_).requests.emplace_back(control::FreeMessage{id});
}

inline void RankSink::note_free(const Bucket& bucket) {
  if (++world_.freed_[bucket.id] == world_.size()) {
    world_.freed_.erase(bucket.id);
    world_.layouts_.erase(bucket.layout);
  }
}

inline void RankSink::join_done(const control::JoinDoneEntry&) {
  Rank& own = world_.rank(rank_);
  own.join_waits = false;
  ++own.generation;
  for (Submission& submission : own.submissions) {
    submission.made = 0;
  }
}

inline void RankSink::fail(const std::string& name, Status status) {
  Rank& own = world_.rank(rank_);
  if (own.member.mode() == Mode::failed) {
    for (Memory& memory : own.memory) {
      memory.exposed = 0;
    }
  }
  world_.finish(rank_, world_.name_index(name), status.code());
}

inline void RankSink::bug(std::string_view what) {
  world_.violated("rank " + std::to_string(rank_) + ": " + std::string(what));
}

}  // namespace ronde::agreement::testing_world
