// HostBells: the bells of the ranks of an arena, as one of them rings them. Whoever sleeps in a rank is woken by one
// bell, whichever of the rank's engines it is for; a group's bells say for which in the rank's CallLine
// (group_calls.h).
//
// To ring is in the path of the smallest collectives: a fence, and a load for each rank that does not sleep (bell.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "transport/bell.h"
#include "transport/group_calls.h"

namespace ronde::transport {

/// The bell of one rank.
struct HostBell {
  BellLine* line = nullptr;
  int event_fd = -1;          ///< of make_bell_fd()
  CallLine* calls = nullptr;  ///< the rank's; null: it is not rung for a group
  int call = 0;               ///< the group's number there
};

/// Any thread.
class HostBells {
 public:
  /// `bells`: by rank, of which this one is `own`. Their lines and descriptors must outlive this.
  HostBells(int own, std::vector<HostBell> bells) : own_(own), bells_(std::move(bells)) {}

  /// Wakes whoever sleeps in `rank` (this one included), if anyone does. Call after storing what it shall see. Never
  /// blocks.
  void ring(int rank) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ring_after_fence(rank);
  }
  /// Rings every rank but this one, at the price of one memory fence in all.
  void ring_others() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ring_others_after_fence();
  }
  /// The same for a caller that has put a seq_cst fence between its stores and this call.
  void ring_after_fence(int rank) const { ring_one(of(rank)); }
  void ring_others_after_fence() const;

  const HostBell& of(int rank) const { return bells_[static_cast<std::size_t>(rank)]; }
  /// The eventfd of this rank's bell, which is written to wake who sleeps in poll() in it: its engine thread mostly.
  int own_fd() const { return of(own_).event_fd; }

 private:
  static void ring_one(const HostBell& bell);

  int own_;
  std::vector<HostBell> bells_;
};

}  // namespace ronde::transport
