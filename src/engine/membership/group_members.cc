#include "engine/membership/group_members.h"

#include <cstddef>

namespace ronde::engine {

bool GroupMembers::has_gone(int member) const {
  const transport::Departure departure = peers_.departure(member);
  return departure == transport::Departure::final ||
         (departure == transport::Departure::in_order && deaths_.is_gone(member));
}

template <typename Predicate>
std::vector<int> GroupMembers::others(const Predicate& predicate) const {
  std::vector<int> found;
  for (int member = 0; member < peers_.size(); ++member) {
    if (member != peers_.self() && predicate(member)) {
      found.push_back(member);
    }
  }
  return found;
}

std::vector<int> GroupMembers::gone() const {
  return others([this](int member) { return has_gone(member); });
}

std::vector<int> GroupMembers::given_up() const {
  return others([this](int member) { return peers_.has_given_up(member); });
}

bool GroupMembers::may_any_touch() const {
  return !others([this](int member) { return may_touch(member); }).empty();
}

bool GroupMembers::may_touch(int member) const {
  return !deaths_.is_gone(member) && !has_gone(member) && !peers_.has_given_up(member) && !deaths_.is_quiet(member);
}

}  // namespace ronde::engine
