// OrderedLane: how large private tensors share chunk slots, which must run in one order on all ranks, without a
// message.
//
// Staging stays in cache only if the slots are few and used again at once, so all ordered buckets share those of one
// channel, and the channel's operations must run in the same order everywhere. The leader, local rank 0, sees that all
// ranks have published a bucket's instance and appends the bucket's id to a ring of words in its heap; the others
// follow the ring. One line more per bucket, written by one rank and read by all.
//
// Entry n (counted from 1 for the life of the lane) is the word (n, id) at n mod kEntries. A reader that is to execute
// entry n waits for a word with number n. The leader overwrites entry n - kEntries; that has been executed by everyone,
// since a bucket is appended again only when all ranks have completed its instance before, so there are never more
// entries that somebody has not executed than there are ordered buckets: at most kEntries of these may be in force.
//
// What all have published the leader appends, in a break too, and all execute what is appended; so a break's decision
// stays "what all have published is finished", and after it the channel's ticks are the same everywhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "collectives/shm/channel.h"
#include "types/thresholds.h"

namespace ronde::collectives {

/// One per group and rank, made at the same offset of the heap by every rank before any executes an entry, and kept for
/// the life of the group: entries and ticks count on through epochs.
class OrderedLane {
 public:
  static constexpr std::uint64_t kEntries = 4096;
  static constexpr int kLeader = 0;

  /// Bytes of heap that a lane takes on each of `ranks` ranks.
  static std::size_t bytes(int ranks);

  /// Clears this rank's part. Requires: the own memory there has been committed; `arena` outlives the lane.
  OrderedLane(transport::HostArena& arena, std::size_t heap_offset, const Thresholds& thresholds);

  HostChannel& channel() { return channel_; }
  /// The row by which all ordered buckets go.
  const Thresholds& thresholds() const { return thresholds_; }
  /// Another row from the next entry on; every rank must set it between the same two entries.
  void set_thresholds(const Thresholds& thresholds) { thresholds_ = thresholds; }
  /// Buckets come and go in the same order on every rank.
  void join() { ++buckets_; }
  void leave() { --buckets_; }
  /// Its ring has no room for the entries of another bucket.
  bool is_full() const { return buckets_ >= kEntries; }
  bool is_leader() const { return channel_.rank() == kLeader; }
  /// Leader only: all ranks have published this bucket.
  void append(std::uint32_t bucket);
  /// The bucket to be executed next, none if nothing is appended.
  std::optional<std::uint32_t> head() const;
  /// The head has been executed here.
  void pop() { ++next_; }

 private:
  std::atomic<std::uint64_t>& entry(std::uint64_t number) const { return ring_[number % kEntries]; }

  const transport::HostBells& bells_;
  std::atomic<std::uint64_t>* const ring_;  ///< in the leader's heap
  HostChannel channel_;
  Thresholds thresholds_;
  std::uint64_t next_ = 1;      ///< entry to execute
  std::uint64_t appended_ = 0;  ///< leader: the last entry
  std::uint64_t buckets_ = 0;
};

}  // namespace ronde::collectives
