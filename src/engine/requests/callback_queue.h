// CallbackQueue: completion callbacks that are due, from the moment their request has ended until the engine thread
// runs them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/requests/ticket.h"

namespace ronde::engine {

class CallbackQueue {
 public:
  /// `rank`: whose log tells of a callback that throws.
  explicit CallbackQueue(int rank) : rank_(rank) {}

  // ---- Any thread.

  /// The ticket's callback is due. `status` is the ticket's at its end: a slot's ticket may be under way again when the
  /// callback runs. `owner` lives until it has run.
  void push(TicketPtr ticket, Status status, std::shared_ptr<void> owner);
  bool is_empty() const;
  /// Whether the calling thread runs a completion callback just now, of whatever queue.
  static bool runs_in_this_thread();

  // ---- One thread at a time.

  /// Runs all that are due, in the order in which they came. What one throws goes to the log: its work has ended, and
  /// others' callbacks are due.
  void run_all();

 private:
  struct Due {
    TicketPtr ticket;
    Status status;
    std::shared_ptr<void> owner;
  };

  void run(const Due& due) const;

  const int rank_;
  mutable std::mutex mutex_;
  std::vector<Due> due_;  ///< guarded by mutex_
};

/// Logs what the completion callback of the request of this name has thrown. Any thread; throws nothing.
void log_thrown(int rank, const std::string& name, const char* what);

}  // namespace ronde::engine
