// EngineSet: the engines of one process, moved on as one: that of the job, and one for each group (process set) that
// this rank belongs to. A group's engine is an engine like any other, on an arena of its own (transport/group_arena.h),
// so groups agree, replay and fail each by themselves, and whatever order two of them work in on different ranks,
// neither waits for the other.
//
// Engine has the same names for the same things; what is said of threads there holds here.
#pragma once

#include <atomic>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "engine/engine.h"

namespace ronde::engine {

class EngineSet {
 public:
  explicit EngineSet(std::unique_ptr<Engine> job);
  EngineSet(const EngineSet&) = delete;
  EngineSet& operator=(const EngineSet&) = delete;

  // ---- Any thread.

  Engine& job() const { return *job_; }
  /// Null if there is no such group here. Not for the job's.
  std::shared_ptr<Engine> find(std::int32_t group) const;
  bool has_input() const;
  bool has_outstanding() const;
  /// Counts of all of them, those of groups that are gone left out.
  std::uint64_t sum(const std::function<std::uint64_t(const Engine&)>& count) const;
  /// A process of the job has ended; `rank` of the host.
  void notice_end(int rank);

  // ---- One thread at a time (the progress lock).

  void add(std::shared_ptr<Engine> group);
  void remove(std::int32_t group);
  bool step();
  bool poll();
  bool only_replays() const;
  Nanoseconds next_timer() const;
  void begin_leave();
  bool has_left() const;
  void finish_leave();
  void fail(const Status& status);
  /// Engine::observe() for all of them, those that come later too.
  void observe(observe::Observer* observer);

 private:
  void introduce(Engine& engine);

  std::unique_ptr<Engine> job_;
  mutable std::shared_mutex mutex_;
  std::vector<std::shared_ptr<Engine>> groups_;  ///< changed under both locks, read under either
  std::atomic<bool> any_groups_{false};
  observe::Observer* observer_ = nullptr;
};

}  // namespace ronde::engine
