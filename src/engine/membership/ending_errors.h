// What callers are told when a group of ranks comes to its end otherwise than in order.
#pragma once

#include <string>
#include <vector>

#include "engine/membership/member_names.h"
#include "engine/requests/ticket.h"

namespace ronde::engine {

/// What those get that were under way, and what later ones are refused with.
struct EndingErrors {
  Code code = Code::internal;
  int rank = -1;               ///< whose fault it is, in the job; -1 if nobody knows
  std::string before, behind;  ///< of the request's name
  bool says_kind = false;
  std::string later;

  Status of(const Ticket& ticket) const;
  Status of_later_ones() const { return Status::error(code, later).with_rank(rank); }
};

/// What requests that need this rank of the job end with once it has left.
Status rank_has_left(int rank);
/// Members agreed and then stopped, or left (`departed`), in the middle: no common point is left to go on from.
/// `late`: those members, as far as they are known.
EndingErrors ended_in_the_middle(const MemberNames& names, const std::vector<int>& late, bool departed);
/// `lost`: the members that have died, at least one.
EndingErrors ended_by_death(const MemberNames& names, const std::vector<int>& lost);
/// A plan could not be begun on this rank.
struct LaunchErrors {
  Status why;
  std::vector<TicketPtr> owners;  ///< whose plan it was
  Status others;                  ///< of all other requests, and of later ones

  Status of(const Ticket& ticket) const;
};
LaunchErrors could_not_begin(const Status& why, const std::vector<TicketPtr>& owners);
/// Of the request that has waited for the coordinator longer than its limit and some patience.
Status coordinator_is_silent(const MemberNames& names, int coordinator, const std::string& name);

}  // namespace ronde::engine
