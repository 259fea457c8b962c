// Submissions: how requests come into an engine, from any thread: checked, under a name that was free, into the bucket
// where the name is replayed or else into the inbox, which the engine empties at its next step.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "control/messages.h"
#include "engine/replay/replay.h"
#include "engine/requests/call_order.h"
#include "engine/requests/pending_table.h"
#include "engine/requests/planning_names.h"
#include "engine/requests/ticket.h"
#include "engine/requests/unwaited_calls.h"
#include "types/group.h"
#include "types/thresholds.h"

namespace ronde::engine {

class Submissions {
 public:
  /// `own_rank`: in the job. `requests`: counts what was submitted and not refused. All of them must outlive this.
  Submissions(const Group& group, int own_rank, backend::Backend& backend, PendingTable& pending, Replay& replay,
              std::atomic<std::uint64_t>& requests)
      : group_(group),
        own_rank_(own_rank),
        backend_(backend),
        pending_(pending),
        replay_(replay),
        requests_(requests) {}

  // ---- Any thread; as Engine has them.

  Status submit(const TicketPtr& ticket);
  Status check(const Request& request) const;
  Status resubmit(const TicketPtr& ticket, std::shared_ptr<void> owner);
  Status submit_again(const TicketPtr& ticket);
  Status submit_again(std::span<const TicketPtr> tickets, std::size_t& submitted);
  std::uint64_t take_call_number() { return calls_.take_number(); }
  void refuse_call(std::uint64_t number, const std::string& why);
  void propose_table(const Thresholds& thresholds);
  /// take() has something.
  bool any() const { return is_full_.load(std::memory_order_acquire); }

  // ---- Under the progress lock.

  struct Taken {
    std::vector<TicketPtr> tickets = {};                ///< in the order of their submits
    std::vector<control::RefusedMessage> refused = {};  ///< calls that the other ranks wait for in vain
    std::optional<Thresholds> proposed = {};            ///< the last row that was asked for
  };
  /// What has come into the inbox since.
  Taken take();
  /// The ticket, which take() has returned, is known to the member: later ones of its kind may overtake the inbox.
  void is_known(const Ticket& ticket) {
    if (!ticket.request().planning_name.empty()) {
      calls_in_inbox_.fetch_sub(1, std::memory_order_release);
    }
  }
  /// All ranks have joined: so many barriers and joins count now.
  void restart_calls_at(std::uint64_t restarts);
  /// What is submitted later is refused for this reason, unless it is refused for another already.
  void close(const Status& reason);
  /// The same, and sends and recvs go on.
  void close_to_collectives(const Status& reason);

 private:
  Status accepting(const Request& request) const;
  const Status& closed_to(OpKind kind) const { return is_pairwise(kind) ? closed_to_pairs_ : closed_; }
  Status submit_call(const TicketPtr& ticket);
  Status take_name(const TicketPtr& ticket);
  void tell_refused(const std::string& name, const Status& refusal);
  Status hand_in(const TicketPtr& ticket);

  const Group& group_;
  const int own_rank_;
  backend::Backend& backend_;
  PendingTable& pending_;
  Replay& replay_;
  std::atomic<std::uint64_t>& requests_;

  CallOrder calls_;
  PlanningNames planning_names_;  ///< guarded by calls_mutex_
  std::mutex calls_mutex_;        ///< unnamed calls are submitted one after the other
  UnwaitedCalls unwaited_calls_;  ///< guarded by calls_mutex_

  mutable std::mutex mutex_;
  Taken inbox_;                         ///< guarded by mutex_
  Status closed_;                       ///< guarded by mutex_: why what all take part in is refused; ok: it is not
  Status closed_to_pairs_;              ///< guarded by mutex_: the same for sends and recvs; only with closed_
  std::atomic<bool> is_closed_{false};  ///< a hint
  std::atomic<bool> is_full_{false};    ///< inbox_ is not empty
  std::atomic<std::size_t> calls_in_inbox_{0};  ///< unnamed ones; they are before whatever comes now
};

}  // namespace ronde::engine
