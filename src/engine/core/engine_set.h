// EngineSet: the engines of one process, moved on as one: that of the job, and one for each group (process set) that
// this rank belongs to. A group's engine is an engine like any other, with connections of its own (group_connector.h),
// so groups agree, replay and fail each by themselves, and whatever order two of them work in on different ranks,
// neither waits for the other.
//
// Awake and at rest. A process may belong to a thousand groups and use one of them at a time, so a step looks only at
// those that are awake. A group that had nothing to do for some steps is put to rest; it is awake again once somebody
// calls it: this rank, which submits, or a peer, which has stored something there and rings (transport/group_calls.h),
// or its own timer.
//
// Engine has the same names for the same things; what is said of threads there holds here.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "engine/core/called_groups.h"
#include "engine/core/engine.h"

namespace ronde::engine {

class EngineSet {
 public:
  /// A group's engine, and its number in this rank's CallLine.
  struct Found {
    std::shared_ptr<Engine> engine;  ///< null: there is no such group here
    int call = 0;
  };

  explicit EngineSet(std::unique_ptr<Engine> job);
  EngineSet(const EngineSet&) = delete;
  EngineSet& operator=(const EngineSet&) = delete;

  // ---- Any thread.

  Engine& job() const { return *job_; }
  /// Not for the job's.
  Found find(std::int32_t group) const;
  /// What `speak` says to the engine of this group, 0 for the job's. INVALID_ARGUMENT if there is no such group here.
  template <typename Speak>
  Status in_group(std::int32_t group, const Speak& speak) const;
  /// The same where something is handed in: the next step looks at the group, which may be at rest.
  template <typename HandIn>
  Status hand_in(std::int32_t group, const HandIn& hand_in);
  /// Something was handed in to the group that has this number: the next step looks at it.
  void call(int call) { calls_.call(call); }
  bool has_input() const;
  bool has_outstanding() const;
  /// Counts of all of them, those of groups that are gone left out.
  std::uint64_t sum(const std::function<std::uint64_t(const Engine&)>& count) const;
  /// The process of this rank of the job has ended.
  void notice_end(int rank);
  /// How many groups a step looks at.
  std::size_t awake() const;

  // ---- One thread at a time (the progress lock).

  /// `call`: a number below transport::kCallBits that no other group here has.
  void add(std::shared_ptr<Engine> group, int call);
  void remove(std::int32_t group);
  bool step();
  bool poll();
  bool replays() const;
  /// Grows with each bucket that is replayed.
  std::uint64_t replayed() const;
  Nanoseconds next_timer() const;
  void begin_leave();
  bool has_left() const;
  void finish_leave();
  void fail(const Status& status);
  /// Engine::observe() for all of them, those that come later too.
  void observe(observe::Observer* observer);

 private:
  struct Member {
    std::shared_ptr<Engine> engine;
    int call = 0;
    bool is_awake = false;
    int idle_steps = 0;          ///< in a row
    std::uint64_t replayed = 0;  ///< last seen
  };

  Status no_such_group(std::int32_t group) const;
  template <typename Move>
  bool move_awake(const Move& move);
  void put_to_rest();
  void wake(Member& member);
  void wake_called();
  void wake_by_timers();
  void introduce(Engine& engine);

  std::unique_ptr<Engine> job_;
  mutable std::shared_mutex mutex_;
  // Changed under both locks, read under either.
  std::unordered_map<std::int32_t, std::unique_ptr<Member>> groups_;  ///< by id
  std::vector<Member*> by_call_;                                      ///< null where there is none
  std::vector<Member*> awake_;
  CalledGroups calls_;  ///< calls: any thread
  std::atomic<bool> any_groups_{false};
  // Under the progress lock.
  Nanoseconds resting_timer_ = kNever;  ///< the first of those at rest
  std::uint64_t replayed_ = 0;          ///< in groups
  observe::Observer* observer_ = nullptr;
};

template <typename Speak>
Status EngineSet::in_group(std::int32_t group, const Speak& speak) const {
  if (group == 0) {
    return speak(*job_);
  }
  const Found found = find(group);
  return found.engine ? speak(*found.engine) : no_such_group(group);
}

template <typename HandIn>
Status EngineSet::hand_in(std::int32_t group, const HandIn& hand_in) {
  if (group == 0) {
    return hand_in(*job_);
  }
  const Found found = find(group);
  if (!found.engine) {
    return no_such_group(group);
  }
  const Status status = hand_in(*found.engine);
  call(found.call);
  return status;
}

}  // namespace ronde::engine
