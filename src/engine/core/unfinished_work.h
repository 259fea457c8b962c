// UnfinishedWork: ends everything that is under way in an engine's stages at once, with one reason. What others may
// still be at work on is kept out of their reach before any caller is told.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/inbox.h"
#include "engine/membership/connections.h"
#include "engine/membership/group_members.h"
#include "engine/p2p/point_to_point.h"
#include "engine/plans/agreed_plans.h"
#include "engine/replay/exposed_memory.h"
#include "engine/replay/replay.h"
#include "engine/requests/completion.h"

namespace ronde::engine {

/// How it came to the end of all.
enum class End { in_error, in_loss, in_order };

/// Under the progress lock.
class UnfinishedWork {
 public:
  /// Where requests may be; all of it must outlive this.
  struct Stages {
    Inbox& inbox;
    PendingTable& pending;
    Replay& replay;
    AgreedPlans& plans;
    PointToPoint& pairs;
    Completion& completion;
  };
  /// A request's end.
  using Reason = std::function<Status(const Ticket&)>;
  /// Whether something else of this process is at work in one of the pages of these bytes (ExposedMemory).
  using IsInUse = std::function<bool(const std::byte*, std::size_t)>;

  UnfinishedWork(Stages stages, const Connections& connections, const GroupMembers& members)
      : stages_(stages), connections_(connections), members_(members), exposed_(*connections.memory) {}
  void set_in_use(IsInUse is_in_use) { is_in_use_ = std::move(is_in_use); }

  /// Ends agreement with `reason`; returns the tickets that were still in it.
  std::vector<TicketPtr> close_agreement(const Status& reason, End end = End::in_error);
  /// Every request ends, and what comes later ends with `later_ones`. `join`: one besides, or null.
  void end_all(const Reason& reason, const Status& later_ones, End end, TicketPtr join);

 private:
  std::vector<TicketPtr> take_all(const Status& later_ones, End end);
  void take_memory_back();

  const Stages stages_;
  const Connections& connections_;
  const GroupMembers& members_;
  ExposedMemory exposed_;
  IsInUse is_in_use_;
};

}  // namespace ronde::engine
