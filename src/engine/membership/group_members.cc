#include "engine/membership/group_members.h"

#include <cstddef>

namespace ronde::engine {

std::string GroupMembers::text_of(int member) const {
  const transport::PeerInfo& info = connections_.who[static_cast<std::size_t>(member)];
  const bool is_linked = connections_.mailbox && member != peers_.self();
  const std::string cause = is_linked ? connections_.mailbox->end_cause(member) : "";
  return "rank " + std::to_string(rank_of(member)) + " (host " + info.host + ", pid " + std::to_string(info.pid) +
         (cause.empty() ? ")" : "; " + cause + ")");
}

std::string GroupMembers::text_of(const std::vector<int>& members, const std::string& separator) const {
  std::string text;
  for (int member : members) {
    text += (text.empty() ? "" : separator) + text_of(member);
  }
  return text.empty() ? "a rank" : text;
}

Status GroupMembers::left_job(int member) const {
  const int rank = rank_of(member);
  return Status::error(Code::peer_left, "rank " + std::to_string(rank) + " has left the job (it shut down or exited)")
      .with_rank(rank);
}

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
