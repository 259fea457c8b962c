// What the ranks are told of requests that fail with the coordinator: one sentence each, with every rank's view.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agreement/held_requests.h"
#include "types/group.h"

namespace ronde::agreement {

/// "rank 1", "ranks 0, 2"
std::string ranks_text(const std::vector<int>& ranks);

/// A `what`: they have made the call at different places among their calls (Request::tag).
inline constexpr std::string_view kOrder = "order";
/// The ranks ask for different things: for another `what`.
std::string disagreement_text(const Group& group, const std::string& name, const HeldRequest& held,
                              std::string_view what);
/// It cannot be done without the ranks that have `joined`, because of `obstacle`.
std::string joined_text(const std::string& name, const Descriptor& asked, const std::vector<int>& joined,
                        std::string_view obstacle);
/// The program of the group's member does not want it any more, and `missing` ranks had not come.
std::string cancelled_text(const Group& group, const std::string& name, const HeldRequest& held, int member,
                           const std::vector<int>& missing);
/// `missing` ranks have not come in time. Requires: it has a deadline.
std::string late_text(const std::string& name, const HeldRequest& held, const std::vector<int>& missing);
/// An unnamed call that `rank` does not make, since it has called a barrier after `made` such calls.
std::string beyond_barrier_text(const Group& group, const std::string& name, const HeldRequest& held, int rank,
                                std::uint64_t made);

}  // namespace ronde::agreement
