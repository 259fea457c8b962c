// ProcessSets: groups that all ranks of the job make and end together (Horovod's process sets), by collectives of the
// whole job:
//
//     make      1. every rank tells all which ranks it wants, which must be the same, the word of its part of the
//     group,
//                  which it has reserved (group_connector.h), and which id it proposes (group_ids.h)
//               2. each member makes its engine on it, and all tell all how that went: from then on every member's is
//                  there, and the group is known
//     remove    1. every rank tells all which group it means
//               2. the members leave it, and all tell all that they have
//
// These calls come in the same order on all ranks, and succeed on all or on none.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/groups/group_ids.h"
#include "engine/groups/group_word.h"
#include "engine/groups/job_groups.h"

namespace ronde::engine {

/// Any thread.
class ProcessSets {
 public:
  /// All must outlive this.
  ProcessSets(ParentJob& job, JobGroups& groups, GroupIds& ids) : job_(job), groups_(groups), ids_(ids) {}

  /// Collective over all ranks of the job, in the same order of calls on all; one at a time. The ranks are sorted.
  /// Gives the id, the same on all ranks, members or not; ids begin at 1, and each stands for the same ranks in all
  /// jobs of this process (group_ids.h). INVALID_ARGUMENT, MISMATCH or OUT_OF_MEMORY on every rank alike, and nothing
  /// has happened.
  Result<std::int32_t> make(std::vector<int> ranks);
  /// Collective over all ranks of the job. What is under way in the group and not submitted by all members fails.
  Status remove(std::int32_t id);

 private:
  Result<std::vector<GroupWord>> exchange(const std::string& name, const GroupWord& own);
  Status compare(const std::vector<GroupWord>& wanted) const;

  ParentJob& job_;
  JobGroups& groups_;
  GroupIds& ids_;
  std::mutex mutex_;  ///< one collective at a time
};

}  // namespace ronde::engine
