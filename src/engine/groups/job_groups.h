// JobGroups: this rank's parts of the groups within the job, from the memory or links that a part is made of to the
// engine of a member. A group lives within the job: in its memory, on its thread, woken by its bells. Which groups
// there are, and how ranks agree on them, is decided elsewhere (process_sets.h, member_groups.h).
//
// A part goes through reserve(), open() and add(), then leave(). The word of a part, which reserve() gives, must reach
// the other members before they open theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/groups/group_connector.h"
#include "engine/groups/group_word.h"
#include "engine/requests/ticket.h"

namespace ronde::engine {

class Engine;

/// The job that groups are made in, as far as they need it.
class ParentJob {
 public:
  /// The job's.
  virtual Engine& engine() = 0;
  /// Submits to the job's engine and blocks until the ticket is done, signals or not.
  virtual Status call(const TicketPtr& ticket) = 0;
  /// Its members' engine is part of the job from now on. `call`: as EngineSet::add().
  virtual void add_group(std::shared_ptr<Engine> engine, int call) = 0;
  /// Collective over the group's members: leaves it, waiting for the others up to settings().shutdown_timeout; then its
  /// engine is gone. TIMED_OUT if some had not left by then.
  virtual Status leave_group(std::int32_t group) = 0;

 protected:
  ~ParentJob() = default;
};

/// WOULD_DEADLOCK in a completion callback, which whoever makes or ends a group would wait for. `done`: "made".
Status only_outside_of_callbacks(const char* done);

/// Any thread.
class JobGroups {
 public:
  /// `job` must outlive this. `connector` null: no group can be made.
  JobGroups(ParentJob& job, std::unique_ptr<GroupConnector> connector) : job_(job), connector_(std::move(connector)) {}

  /// What this rank says first of a group of these ranks of the job: its part's word if it is a member, or why there
  /// can be none. `part` is this rank's if it is a member and there is no problem, else nothing.
  GroupWord reserve(const std::vector<int>& ranks, std::optional<GroupPart>& part);
  /// No member has opened its part, nor will: all have heard the same problem.
  void give_back(const std::optional<GroupPart>& part);
  /// This rank's engine of the group. `members`: what they have said, in the order of the group. `timeout`: of requests
  /// that have none.
  Result<std::shared_ptr<Engine>> open(const GroupPart& part, std::int32_t id, const std::vector<GroupWord>& members,
                                       Nanoseconds timeout);
  /// There will be no such group, though others may have opened theirs; this rank's engine of it is gone. What it was
  /// made of is given out again once all members have left, which those that were never opened do not tell.
  void abandon(const std::optional<GroupPart>& part);
  /// There is such a group from now on. Part and engine: nothing if this rank is no member.
  void add(std::int32_t id, std::optional<GroupPart> part, std::shared_ptr<Engine> engine);
  bool knows(std::int32_t id) const;
  /// Collective over the members: there is no such group any more. What it was made of is given out again once all
  /// members have come here. INVALID_ARGUMENT if it is not known.
  Status leave(std::int32_t id);

  /// INVALID_ARGUMENT unless these are different ranks of the job, at least one.
  Status check_ranks(std::vector<int> ranks) const;
  /// How many groups this rank has a part of (GroupConnector::taken()).
  std::size_t taken() const { return connector_->taken(); }

 private:
  GroupConnector::HasEnded has_ended() const;

  ParentJob& job_;
  const std::unique_ptr<GroupConnector> connector_;
  mutable std::mutex mutex_;
  std::map<std::int32_t, std::optional<GroupPart>> known_;  ///< guarded by mutex_
};

}  // namespace ronde::engine
