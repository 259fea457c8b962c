// What a name is answered with when every member that has not joined has requested it. Pure.
#pragma once

#include <optional>
#include <string>

#include "agreement/held_requests.h"
#include "control/messages.h"
#include "types/group.h"

namespace ronde::agreement {

/// One of the two.
struct Answer {
  std::optional<control::ExecEntry::Item> item = {};  ///< all do this
  std::string mismatch = {};                          ///< why they cannot
  bool loses_order = false;  ///< since members have made their calls in different orders (Request::tag)
};

/// `may_reduce_at`: none: wherever members have it in memory that all reach. `has_lost_order`: members have made calls
/// before in different orders. Requires: a member has requested it.
Answer answer_to(const Group& group, const std::string& name, const HeldRequest& held,
                 const MayReduceAt& may_reduce_at = {}, bool has_lost_order = false);

}  // namespace ronde::agreement
