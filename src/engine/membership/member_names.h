// MemberNames: what callers know the members of an engine's group by. Members go by their numbers in the group, callers
// know them by their ranks in the job.
#pragma once

#include <string>
#include <vector>

#include "engine/membership/connections.h"
#include "types/group.h"

namespace ronde::engine {

/// Under the progress lock, but for rank_of().
class MemberNames {
 public:
  /// Both must outlive this.
  MemberNames(const Group& group, const Connections& connections) : group_(group), connections_(connections) {}

  int rank_of(int member) const { return group_.ranks[static_cast<std::size_t>(member)]; }
  /// "rank 3 (host a, pid 12)", with why its connection has ended if it has.
  std::string text_of(int member) const;
  /// The same of several, with `separator` between them; "a rank" if there are none.
  std::string text_of(const std::vector<int>& members, const std::string& separator) const;

 private:
  const Group& group_;
  const Connections& connections_;
};

}  // namespace ronde::engine
