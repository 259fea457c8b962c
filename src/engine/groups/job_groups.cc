#include "engine/groups/job_groups.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/core/engine.h"
#include "engine/requests/callback_queue.h"

namespace ronde::engine {

Status only_outside_of_callbacks(const char* done) {
  return CallbackQueue::runs_in_this_thread()
             ? Status::error(Code::would_deadlock, std::string("a process set cannot be ") + done +
                                                       " in a completion callback, which it waits for")
             : Status();
}

GroupConnector::HasEnded JobGroups::has_ended() const {
  return [&job = job_](int rank) { return job.engine().has_ended(rank); };
}

Status JobGroups::check_ranks(std::vector<int> ranks) const {
  std::sort(ranks.begin(), ranks.end());
  const int size = job_.engine().topology().size;
  if (ranks.empty()) {
    return Status::error(Code::invalid_argument, "a process set needs at least one rank");
  }
  if (ranks.front() < 0 || ranks.back() >= size) {
    return Status::error(Code::invalid_argument, "a process set has the rank " +
                                                     std::to_string(ranks.front() < 0 ? ranks.front() : ranks.back()) +
                                                     "; the ranks of this job are 0 to " + std::to_string(size - 1));
  }
  const auto twice = std::adjacent_find(ranks.begin(), ranks.end());
  return twice == ranks.end()
             ? Status()
             : Status::error(Code::invalid_argument, "a process set has the rank " + std::to_string(*twice) + " twice");
}

GroupWord JobGroups::reserve(const std::vector<int>& ranks, std::optional<GroupPart>& part) {
  GroupWord own{{ranks.begin(), ranks.end()}, {}, check_ranks(ranks)};
  const int rank = job_.engine().topology().rank;
  if (own.problem && std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) {
    Result<GroupPart> reserved = connector_->reserve(ranks, has_ended());
    own.problem = reserved.status();
    if (reserved) {
      part = std::move(reserved).value();
      own.part = part->word;
    }
  }
  return own;
}

void JobGroups::give_back(const std::optional<GroupPart>& part) {
  if (part) {
    connector_->give_back(*part);
  }
}

Result<std::shared_ptr<Engine>> JobGroups::open(const GroupPart& part, std::int32_t id,
                                                const std::vector<GroupWord>& members, Nanoseconds timeout) {
  Engine& job = job_.engine();
  std::vector<std::vector<std::int64_t>> words;
  for (const GroupWord& member : members) {
    words.push_back(member.part);
  }
  RONDE_ASSIGN_OR_RETURN(Connections connections, connector_->connect(part, words));
  Topology topology;
  topology.rank = topology.local_rank = part.own;
  topology.size = topology.local_size = static_cast<int>(part.ranks.size());
  topology.epoch = job.topology().epoch;
  Settings settings = job.settings();
  settings.timeout = timeout;
  return std::make_shared<Engine>(topology, std::move(connections), settings, job.clock(), Group{id, part.ranks});
}

void JobGroups::abandon(const std::optional<GroupPart>& part) {
  if (part) {
    connector_->leave(*part, has_ended());
  }
}

void JobGroups::add(std::int32_t id, std::optional<GroupPart> part, std::shared_ptr<Engine> engine) {
  if (engine) {
    job_.add_group(std::move(engine), part->call);
  }
  std::lock_guard lock(mutex_);
  known_.emplace(id, std::move(part));
}

bool JobGroups::knows(std::int32_t id) const {
  std::lock_guard lock(mutex_);
  return known_.contains(id);
}

Status JobGroups::leave(std::int32_t id) {
  std::optional<GroupPart> part;
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(id);
    if (found == known_.end()) {
      return Status::error(Code::invalid_argument, "there is no process set with the id " + std::to_string(id));
    }
    part = std::move(found->second);
    known_.erase(found);
  }
  const Status left = job_.leave_group(id);
  if (part) {
    connector_->leave(*part, has_ended());
  }
  return left;
}

}  // namespace ronde::engine
