// Cancellations: requests that their callers want to end before their time (ronde_cancel).
//
// A request waits with the coordinator, in a bucket, or it is on the way from one to the other: a message about it may
// miss it. So what is cancelled is looked at again until it has ended.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "engine/requests/ticket.h"

namespace ronde::engine {

class Cancellations {
 public:
  /// Any thread.
  void add(const TicketPtr& ticket) {
    std::lock_guard lock(mutex_);
    added_.push_back({ticket, use_of(*ticket)});
    any_added_.store(true, std::memory_order_release);
  }
  bool any_added() const { return any_added_.load(std::memory_order_acquire); }

  // ---- Under the progress lock.

  /// Those for which something is to be done now.
  std::vector<TicketPtr> due(Nanoseconds now) {
    if (any_added()) {
      std::lock_guard lock(mutex_);
      under_way_.insert(under_way_.end(), added_.begin(), added_.end());
      added_.clear();
      any_added_.store(false, std::memory_order_relaxed);
      next_ = now;
      pause_ = kFirstPause;
    }
    if (under_way_.empty() || now < next_) {
      return {};
    }
    std::erase_if(under_way_,
                  [](const Each& each) { return each.ticket->is_done() || use_of(*each.ticket) != each.use; });
    next_ = under_way_.empty() ? kNever : now + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
    std::vector<TicketPtr> tickets;
    tickets.reserve(under_way_.size());
    for (const Each& each : under_way_) {
      tickets.push_back(each.ticket);
    }
    return tickets;
  }
  /// When due() has something at the earliest.
  Nanoseconds next() const { return next_; }

 private:
  static constexpr Nanoseconds kFirstPause = 2 * kMillisecond;
  static constexpr Nanoseconds kLongestPause = kSecond;

  struct Each {
    TicketPtr ticket;
    std::uint64_t use;  ///< of a ticket that is submitted again and again: which
  };
  static std::uint64_t use_of(Ticket& ticket) { return ticket.name_word().load(std::memory_order_relaxed) / 4; }

  std::mutex mutex_;
  std::vector<Each> added_;  ///< guarded by mutex_
  std::atomic<bool> any_added_{false};
  std::vector<Each> under_way_;
  Nanoseconds next_ = kNever;
  Nanoseconds pause_ = kFirstPause;
};

}  // namespace ronde::engine
