// Submissions: how requests come into an engine, from any thread: checked, under a name that was free, into the bucket
// where the name is replayed or else into the inbox (inbox.h), which the engine empties at its next step.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "backend/backend.h"
#include "engine/core/inbox.h"
#include "engine/replay/replay.h"
#include "engine/requests/call_order.h"
#include "engine/requests/pending_table.h"
#include "engine/requests/planning_names.h"
#include "engine/requests/ticket.h"
#include "engine/requests/unwaited_calls.h"
#include "types/group.h"

namespace ronde::engine {

class Submissions {
 public:
  /// `own_rank`: in the job. `requests`: counts what was submitted and not refused. All of them must outlive this.
  Submissions(const Group& group, int own_rank, backend::Backend& backend, PendingTable& pending, Replay& replay,
              Inbox& inbox, std::atomic<std::uint64_t>& requests)
      : group_(group),
        own_rank_(own_rank),
        backend_(backend),
        pending_(pending),
        replay_(replay),
        inbox_(inbox),
        requests_(requests) {}

  // ---- Any thread; as Engine has them.

  Status submit(const TicketPtr& ticket);
  Status check(const Request& request) const;
  Status resubmit(const TicketPtr& ticket, std::shared_ptr<void> owner);
  Status submit_again(const TicketPtr& ticket);
  Status submit_again(std::span<const TicketPtr> tickets, std::size_t& submitted);
  std::uint64_t take_call_number() { return calls_.take_number(); }
  void refuse_call(std::uint64_t number, const std::string& why);

  // ---- Under the progress lock.

  /// All ranks have joined: so many barriers and joins count now.
  void restart_calls_at(std::uint64_t restarts);

 private:
  Status submit_call(const TicketPtr& ticket);
  Status take_name(const TicketPtr& ticket);
  void tell_refused(const std::string& name, const Status& refusal);
  Status hand_in(const TicketPtr& ticket);

  const Group& group_;
  const int own_rank_;
  backend::Backend& backend_;
  PendingTable& pending_;
  Replay& replay_;
  Inbox& inbox_;
  std::atomic<std::uint64_t>& requests_;

  CallOrder calls_;
  PlanningNames planning_names_;  ///< guarded by calls_mutex_
  std::mutex calls_mutex_;        ///< unnamed calls are submitted one after the other
  UnwaitedCalls unwaited_calls_;  ///< guarded by calls_mutex_
};

}  // namespace ronde::engine
