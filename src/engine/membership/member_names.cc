#include "engine/membership/member_names.h"

#include <cstddef>

namespace ronde::engine {

std::string MemberNames::text_of(int member) const {
  const transport::PeerInfo& info = connections_.who[static_cast<std::size_t>(member)];
  const bool is_linked = connections_.mailbox && member != connections_.peers->self();
  const std::string cause = is_linked ? connections_.mailbox->end_cause(member) : "";
  return "rank " + std::to_string(rank_of(member)) + " (host " + info.host + ", pid " + std::to_string(info.pid) +
         (cause.empty() ? ")" : "; " + cause + ")");
}

std::string MemberNames::text_of(const std::vector<int>& members, const std::string& separator) const {
  std::string text;
  for (int member : members) {
    text += (text.empty() ? "" : separator) + text_of(member);
  }
  return text.empty() ? "a rank" : text;
}

}  // namespace ronde::engine
