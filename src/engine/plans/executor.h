// Executor: runs agreed plans on a backend, one after the other in the order of the log, without blocking. Of an
// ordered backend it launches the instances of buckets as well, each in its turn; these end when they do.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"
#include "engine/plans/planner.h"
#include "engine/requests/ticket.h"

namespace ronde::engine {

struct PlanRun {
  Plan plan;
  std::vector<TicketPtr> owners;  ///< the tickets with a tensor in it, each once
  /// Without progress for so long it is given up: the longest of its requests' limits, and not less than a peer may be
  /// off its core on a loaded machine.
  Nanoseconds timeout = 5 * kSecond;
  std::optional<Thresholds> table = {};      ///< in force from this plan on
  std::optional<std::uint32_t> bucket = {};  ///< in place of a plan: its instance that is under way
};

class Executor {
 public:
  /// Under the progress lock `started` is called for every plan that is launched, `finished` for every one that has
  /// ended, `launch` in the turn of a bucket.
  Executor(backend::Backend& backend, std::function<void(const PlanRun&)> started,
           std::function<void(const PlanRun&, const Status&)> finished, std::function<void(std::uint32_t)> launch)
      : backend_(backend), started_(std::move(started)), finished_(std::move(finished)), launch_(std::move(launch)) {}

  void enqueue(PlanRun run);
  /// The instance of this bucket that is under way; `launch` is called in its turn.
  void enqueue_launch(std::uint32_t bucket);
  /// For the plans enqueued from now on; those before run by the row they were agreed under, as on every rank.
  void set_table(const Thresholds& table) { table_of_next_ = table; }
  /// Moves the first plan on by one piece of work, or starts it. Does nothing after a plan could not be started.
  Progress advance(Nanoseconds now);
  /// Why the first plan could not be started, though the backend supports it; ok if none. The other ranks may have
  /// started it, so nothing agreed after it can be executed either.
  const Status& failure() const { return failure_; }
  /// Requires: failure() is an error. The plan that could not be started.
  const PlanRun& failed() const { return queue_.front(); }
  bool is_idle() const { return queue_.empty(); }
  /// The plan that runs now, null if none does.
  const PlanRun* running() const { return operation_ ? &queue_.front() : nullptr; }
  /// When the running plan must have moved on; kNever if nothing runs under a limit.
  Nanoseconds deadline() const { return operation_ ? deadline_ : kNever; }
  /// Group indices that the running plan waits for.
  std::vector<int> waiting_for() const;
  /// Drops everything; returns the plans that were under way or waiting. Nothing of theirs is touched afterwards.
  std::vector<PlanRun> abandon();

 private:
  backend::Backend& backend_;
  std::function<void(const PlanRun&)> started_;
  std::function<void(const PlanRun&, const Status&)> finished_;
  std::function<void(std::uint32_t)> launch_;
  std::deque<PlanRun> queue_;
  std::unique_ptr<Operation> operation_;  ///< of the first in the queue
  Status failure_;
  Nanoseconds deadline_ = kNever;
  std::optional<Thresholds> table_of_next_;
};

}  // namespace ronde::engine
