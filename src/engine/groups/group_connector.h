// GroupConnector: what a job's member makes groups of: a part of this rank for each, and the connections of its member.
// Who has made the job's connections decides what a part is and how it is reached; the engine carries the members'
// words of it from one to the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "engine/membership/connections.h"

namespace ronde::engine {

/// This rank's part of one group.
struct GroupPart {
  int call = 0;            ///< the group's number among this rank's (transport/group_calls.h)
  int own = 0;             ///< this rank's number in the group
  std::vector<int> ranks;  ///< of the job, in the order of the group
  /// What the other members must know of it.
  std::vector<std::int64_t> word;
};

/// Any thread.
class GroupConnector {
 public:
  /// Says of a rank of the job that its process has ended.
  using HasEnded = std::function<bool(int)>;

  virtual ~GroupConnector() = default;
  /// A part for a group of these ranks. OUT_OF_MEMORY if there is no room.
  virtual Result<GroupPart> reserve(const std::vector<int>& ranks, const HasEnded& has_ended) = 0;
  /// What this rank reaches the group's other members with. `words`: the members', in the order of the group. INTERNAL
  /// if one of them cannot be.
  virtual Result<Connections> connect(const GroupPart& part, const std::vector<std::vector<std::int64_t>>& words) = 0;
  /// No member has connected, nor will.
  virtual void give_back(const GroupPart& part) = 0;
  /// This rank's connections are gone. What they had is used again once all members have left.
  virtual void leave(const GroupPart& part, const HasEnded& has_ended) = 0;
  /// How many parts are taken; those count that were left here and, when last looked, not by all members.
  virtual std::size_t taken() const = 0;
};

}  // namespace ronde::engine
