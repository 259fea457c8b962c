// GroupMembers: which of the other members of an engine's group have gone, and whether any may still be at work on
// memory of this one. What callers know members by: member_names.h.
#pragma once

#include <vector>

#include "engine/membership/deaths.h"
#include "transport/peers.h"

namespace ronde::engine {

/// Members go by their numbers in the group. Under the progress lock.
class GroupMembers {
 public:
  /// Both must outlive this.
  GroupMembers(const transport::Peers& peers, const Deaths& deaths) : peers_(peers), deaths_(deaths) {}

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

  const transport::Peers& peers_;
  const Deaths& deaths_;
};

}  // namespace ronde::engine
