// GroupMembers: the other members of an engine's group: what callers know them by, which of them have gone, and which
// may still be at work on memory of this one.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engine/membership/connections.h"
#include "engine/membership/deaths.h"
#include "types/group.h"

namespace ronde::engine {

/// Members go by their numbers in the group, callers know them by their ranks in the job. Under the progress lock.
class GroupMembers {
 public:
  /// All of them must outlive this.
  GroupMembers(const Group& group, const Connections& connections, const Deaths& deaths)
      : group_(group), connections_(connections), peers_(*connections.peers), deaths_(deaths) {}

  int rank_of(int member) const { return group_.ranks[static_cast<std::size_t>(member)]; }
  /// "rank 3 (host a, pid 12)", with why its connection has ended if it has.
  std::string text_of(int member) const;
  /// The same of several, with `separator` between them; "a rank" if there are none.
  std::string text_of(const std::vector<int>& members, const std::string& separator) const;
  /// What requests that need this member end with once it has left.
  Status left_job(int member) const;

  /// It has said its last word, or has died after it had left: what it had not sent by then, nobody will send.
  bool has_gone(int member) const;
  /// Those, without this one.
  std::vector<int> gone() const;
  /// Those which had to end their part in something in an error.
  std::vector<int> given_up() const;
  /// Another may still be at work on what this group had under way.
  bool may_any_touch() const;

 private:
  bool may_touch(int member) const;
  template <typename Predicate>
  std::vector<int> others(const Predicate& predicate) const;

  const Group& group_;
  const Connections& connections_;
  const transport::Peers& peers_;
  const Deaths& deaths_;
};

}  // namespace ronde::engine
