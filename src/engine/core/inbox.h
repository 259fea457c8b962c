// Inbox: what callers have handed in to an engine since its last step. Any thread adds, the engine takes all at once.
// Once the engine has failed or left, the inbox is closed: nobody would ever take what comes then.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "base/status.h"
#include "control/messages.h"
#include "engine/requests/ticket.h"
#include "types/thresholds.h"

namespace ronde::engine {

class Inbox {
 public:
  struct Taken {
    std::vector<TicketPtr> tickets = {};                ///< in the order in which they were added
    std::vector<control::RefusedMessage> refused = {};  ///< calls that the other ranks wait for in vain
    std::optional<Thresholds> proposed = {};            ///< the last row that was asked for
  };

  // ---- Any thread.

  /// An error that names the request if it would be refused. A hint: add() looks again.
  Status accepting(const Request& request) const {
    return is_closed_.load(std::memory_order_relaxed) ? why_refused(request) : Status();
  }
  /// The error that accepting() gives if the inbox is closed to such requests; the ticket is not in it then. Throws
  /// std::bad_alloc, likewise. Unnamed calls (those with a planning name) come from one thread at a time.
  Status add(const TicketPtr& ticket);
  /// The next two are dropped if the inbox is closed.
  void add(control::RefusedMessage refused);
  void propose(const Thresholds& thresholds);
  /// take() has something.
  bool any() const { return is_full_.load(std::memory_order_acquire); }
  /// Unnamed calls were added of which is_known() was not told: they are before whatever comes now.
  bool has_calls() const { return calls_.load(std::memory_order_acquire) > 0; }

  // ---- The engine.

  Taken take();
  /// The ticket, which take() has returned, is known to the member: later ones of its kind may overtake the inbox.
  void is_known(const Ticket& ticket) {
    if (is_call(ticket)) {
      calls_.fetch_sub(1, std::memory_order_release);
    }
  }
  /// What is added later is refused for this reason, unless it is refused for another already.
  void close(const Status& reason);
  /// The same, and sends and recvs go on.
  void close_to_collectives(const Status& reason);

 private:
  static bool is_call(const Ticket& ticket) { return !ticket.request().planning_name.empty(); }
  Status why_refused(const Request& request) const;
  Status refusal(const Request& request) const;

  mutable std::mutex mutex_;
  Taken waiting_;                       ///< guarded by mutex_
  Status closed_;                       ///< guarded by mutex_: why what all take part in is refused; ok: it is not
  Status closed_to_pairs_;              ///< guarded by mutex_: the same for sends and recvs; only with closed_
  std::atomic<bool> is_closed_{false};  ///< a hint
  std::atomic<bool> is_full_{false};    ///< there is something in waiting_
  std::atomic<std::size_t> calls_{0};   ///< unnamed ones, in waiting_ or taken and not known yet
};

}  // namespace ronde::engine
