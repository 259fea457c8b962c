// ReplayState: what this rank's side of replay keeps beside the member of agreement. Replay (replay.h) owns it, and
// what the member wants done is done on it (replay_actions.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "engine/replay/bucket_runs.h"
#include "engine/replay/bucket_watch.h"
#include "engine/replay/replay_outbox.h"
#include "engine/requests/ticket.h"

namespace ronde::engine {

/// Any thread.
struct ReplayCounters {
  std::atomic<std::uint64_t> installs{0};      ///< INSTALL and ADD read
  std::atomic<std::uint64_t> breaks{0};        ///< epochs left
  std::atomic<std::uint64_t> instances{0};     ///< buckets reduced without a message
  std::atomic<std::uint64_t> direct_bytes{0};  ///< of those where the tensors lie
  std::atomic<std::uint64_t> entries{0};       ///< log entries read
  std::atomic<std::uint64_t> voided{0};        ///< buckets in which other unnamed calls had met
};

/// What of its parts any thread may ask, and under which locks the rest lies, is said at each.
struct ReplayState {
  /// Any thread. A bucket was published, or the engine was called to the outbox.
  bool has_work() const { return outbox.is_called() || runs.has_published(); }

  BucketRuns runs;
  BucketWatch watch;
  ReplayOutbox outbox;
  ReplayCounters counters;
  std::vector<TicketPtr> completed;  ///< under the progress lock: requests that are over well, to be finished
};

}  // namespace ronde::engine
