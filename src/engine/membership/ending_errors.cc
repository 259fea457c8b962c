#include "engine/membership/ending_errors.h"

#include <algorithm>

namespace ronde::engine {

Status EndingErrors::of(const Ticket& ticket) const {
  const std::string kind = says_kind ? std::string(op_name(ticket.request().kind)) + " " : "";
  return Status::error(code, before + kind + "'" + ticket.name() + "'" + behind).with_rank(rank);
}

Status rank_has_left(int rank) {
  return Status::error(Code::peer_left, "rank " + std::to_string(rank) + " has left the job (it shut down or exited)")
      .with_rank(rank);
}

EndingErrors ended_in_the_middle(const MemberNames& names, const std::vector<int>& late, bool departed) {
  EndingErrors errors;
  errors.code = departed ? Code::peer_left : Code::timed_out;
  errors.rank = late.empty() ? -1 : names.rank_of(late.front());
  errors.before = departed ? "the ranks did not finish " : "Timed out while executing ";
  errors.behind = ": " + names.text_of(late, ", ") +
                  (departed ? " has left in the middle of it" : " agreed to it but did not do its part") +
                  "; this group of ranks is unusable until shutdown and init";
  errors.later = "an earlier request ended in the middle; shut down and init again";
  return errors;
}

EndingErrors ended_by_death(const MemberNames& names, const std::vector<int>& lost) {
  const std::string who = names.text_of(lost, " and ");
  EndingErrors errors;
  errors.code = Code::peer_lost;
  errors.rank = names.rank_of(lost.front());
  errors.before = who + " died while ";
  errors.behind = " was under way";
  errors.says_kind = true;
  errors.later = who + " died; this group of ranks is unusable until shutdown and init";
  return errors;
}

Status LaunchErrors::of(const Ticket& ticket) const {
  const bool is_owner =
      std::any_of(owners.begin(), owners.end(), [&](const TicketPtr& owner) { return owner.get() == &ticket; });
  return is_owner ? why.with_context("'" + ticket.name() + "' could not be begun") : others;
}

LaunchErrors could_not_begin(const Status& why, const std::vector<TicketPtr>& owners) {
  return {why, owners,
          Status::error(why.code(), "this rank could not begin '" + owners.front()->name() + "' (" + why.message() +
                                        "); this group of ranks is unusable until shutdown and init")};
}

Status coordinator_is_silent(const MemberNames& names, int coordinator, const std::string& name) {
  return Status::error(Code::timed_out, "Timed out in '" + name + "': " + names.text_of(coordinator) +
                                            ", which coordinates the ranks, does not answer. Is it stopped?")
      .with_rank(names.rank_of(coordinator));
}

}  // namespace ronde::engine
