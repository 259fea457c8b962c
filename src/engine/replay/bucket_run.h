// BucketRun: a bucket in replay on this rank: its persistent collective with the requests that are in it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "agreement/sink.h"
#include "base/clock.h"
#include "engine/replay/observed_instance.h"
#include "engine/replay/patience.h"
#include "engine/requests/ticket.h"
#include "types/persistent_collective.h"

namespace ronde::engine {

/// Under the gate, but for the collective's advance().
class BucketRun {
 public:
  /// `is_ordered`: it is launched by the log, of a group whose backend is ordered.
  BucketRun(std::unique_ptr<PersistentCollective> collective, const Bucket& agreed, bool is_ordered = false);

  PersistentCollective& collective() const { return *collective_; }
  /// By place; null where none is.
  std::vector<TicketPtr>& tickets() { return tickets_; }
  const std::vector<TicketPtr>& tickets() const { return tickets_; }
  bool has_unnamed() const { return has_unnamed_; }
  /// Nobody but its flag needs to be told when it is published.
  bool is_plain() const { return is_plain_; }
  bool is_in_force() const { return in_force_; }
  /// Payload of each instance that is reduced where the tensors lie.
  std::uint64_t direct_bytes() const { return direct_bytes_; }

  void enter(std::uint32_t epoch);
  /// What is published and not complete never will be; the requests are not in it any more.
  void leave();
  /// The data of the ticket in this place. `is_first`: of its instance.
  void copy_in(std::uint32_t place, bool is_first, const Clock& clock);
  /// All places are taken. `calls`: stands for the unnamed calls in them.
  void publish(std::uint64_t calls, const Clock& clock);
  /// The instance is complete: its tickets are added to these.
  void complete(std::vector<TicketPtr>& completed);
  void drop_tickets();

  /// Somebody waits for one of its requests, or wants to be told of its end.
  bool is_wanted() const;
  struct Look {
    Nanoseconds now = 0;
    std::uint64_t instance = 0;  ///< under way
    bool is_half_full = false;
    bool has_queued = false;     ///< calls wait behind its places
    bool is_queue_late = false;  ///< one of them, here or elsewhere, has had its time
    Nanoseconds stall = 0;       ///< after so long a stall is reported
  };
  /// Why the epoch should be broken for its sake; Reason::none if it need not. Requests whose time is up get that as
  /// their deadline.
  agreement::Reason overdue(const Look& look);

  /// False if it is watched already.
  bool begin_watch() { return !std::exchange(is_watched_, true); }
  void end_watch() { is_watched_ = false; }

  /// For who observes: its times are noted by who sees them.
  ObservedInstance& observed() { return observed_; }

 private:
  std::unique_ptr<PersistentCollective> collective_;
  std::vector<TicketPtr> tickets_;
  const std::uint64_t direct_bytes_;
  Patience patience_;
  ObservedInstance observed_;
  bool in_force_ = false;
  bool is_watched_ = false;
  const bool has_unnamed_;
  const bool is_plain_;
};

}  // namespace ronde::engine
