// What the opaque pointers of the C interface point to.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "engine/process/runner.h"
#include "ronde/ronde.h"

struct ronde_engine {
  std::shared_ptr<ronde::engine::Runner> runner;
};

/// The caller holds one reference, the completion callback another while it is due: a ticket may be released between
/// its end and its callback.
struct ronde_ticket {
  std::weak_ptr<ronde::engine::Runner> runner;  ///< gone after shutdown; the ticket is done then
  ronde::engine::TicketPtr ticket;
  std::atomic<int> references{1};
  bool belongs_to_slot = false;

  void drop() {
    if (references.fetch_sub(1) == 1) {
      delete this;
    }
  }
};

namespace ronde::api {

/// The runner behind an engine pointer, the shared one for null; NOT_INITIALIZED if there is none.
Result<std::shared_ptr<engine::Runner>> runner_of(ronde_engine* engine);

/// What the C interface tells of a status; the strings are the status's own.
void fill(ronde_error_info& info, const Status& status);

/// Whether it is done; if not, the engine hears that somebody wants to know.
bool looked_at(const ronde_ticket& handle);
/// Waits as ronde_wait_while_moving() says; `idle_s` < 0: as ronde_wait() does.
Status wait(ronde_ticket& handle, double limit_s, double idle_s = -1.0);
/// Waits until it is over and frees the name; the handle stays.
Status settle(ronde_ticket& handle);
/// Seconds of the C interface (negative: no limit) as nanoseconds.
Nanoseconds limit_from(double seconds);

}  // namespace ronde::api
