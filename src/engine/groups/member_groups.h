// MemberGroups: groups that their members make alone (PyTorch's use_local_synchronization), who meet in the job's store
// under a name, in the two rounds of a process set (process_sets.h), among them. Others never hear of them, so their
// ids are each rank's own. Members leave them by themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/groups/group_ids.h"
#include "engine/groups/group_word.h"
#include "engine/groups/job_groups.h"
#include "store/store.h"

namespace ronde::engine {

/// Where the members of a group meet.
struct Meeting {
  store::Store* store = nullptr;  ///< null: there is but one member
  std::string name;               ///< in use for nothing else there
  int size = 1;                   ///< of the group
  Nanoseconds deadline = kNever;  ///< on the real clock
};

/// Any thread.
class MemberGroups {
 public:
  /// Both must outlive this. `own_rank`: in the job.
  MemberGroups(JobGroups& groups, GroupIds& ids, int own_rank) : groups_(groups), ids_(ids), own_rank_(own_rank) {}

  /// Whether the id is of such a group.
  static bool has(std::int32_t id) { return id >= kFirstOwnGroup; }

  /// Collective over the group's members alone, of which this rank is one. The ranks keep their order; `timeout` is of
  /// requests that have none. Gives this rank's id for the group. INVALID_ARGUMENT or OUT_OF_MEMORY on every member
  /// alike, or what the store says, and nothing has happened.
  Result<std::int32_t> make(const std::vector<int>& ranks, const Meeting& meeting, Nanoseconds timeout);
  /// Collective over the group's members: leaves it. What is under way in it and not submitted by all members fails.
  Status leave(std::int32_t id);

 private:
  static Result<std::vector<GroupWord>> meet(const Meeting& meeting, const std::string& what, int own,
                                             const GroupWord& word);

  JobGroups& groups_;
  GroupIds& ids_;
  const int own_rank_;
};

}  // namespace ronde::engine
