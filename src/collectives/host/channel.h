// HostChannel: the ticks, flags and staging slots through which one rank takes part in its host's collectives.
//
// Work is cut into ticks, numbered from 1 and counted alike by every rank, since all ranks run the same plans in the
// same order, one at a time. Tick t uses the staging slots t mod S (S = layout.slots). Each rank has three flags, each
// the number of the last tick it holds for:
//
//     published >= t   my input of tick t is in my input slot
//     reduced   >= t   I read nobody's input slot of tick t any more, and my result slot of tick t is complete
//     copied    >= t   I read nobody's result slot of tick t any more
//
// A flag is stored (release) after the copies it speaks of, and loaded (acquire) before those it permits. Release also
// keeps a rank's earlier loads before the store, so "I read it no more" is true when it is seen.
//
// Reuse. I may overwrite my input slot with tick t once every peer has done with tick t - S: reduced >= t - S; and my
// result slot once copied >= t - S. Most operations store all three flags for all their ticks. Operations of a single
// tick in which each rank waits for every other (one-shot all-reduce, barrier) store `published` only, which keeps a
// small all-reduce at one line written per rank. Done-ness then follows from
//
//     published >= first tick of an operation X  =>  that rank has finished everything before X,     (*)
//
// since a rank runs one operation at a time. So a peer is done with tick o = t - S, in the current operation X, as
// soon as it shows reduced >= o, or published >= X's first tick f while o < f, or as (*) was seen in an operation
// between. Why nobody waits for ever:
//   - o lies in X: then I have published o, and the peer's progress in X stores reduced >= o.
//   - o lies in an earlier operation that stores all flags: the peer finishes that with what I stored in it.
//   - o lies in an earlier operation of a single tick, and another lies between it and X: if that is of a single tick
//     too, I saw (*) in it; if not, the case before holds for it, and its flags are higher.
//   - o is the single tick directly before X, o = f - 1: then t = f - 1 + S > f, since S >= 2, and I have published f
//     already, as the peer will: what it needs for that, tick f - S, falls under the cases above.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/arena.h"

namespace ronde::collectives {

/// One per rank and arena, used by one operation at a time, under the engine's progress lock.
class HostChannel {
 public:
  /// `arena` must outlive the channel, which must be the only one over it.
  explicit HostChannel(transport::HostArena& arena);

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t slot_bytes() const { return arena_.layout().slot_bytes; }

  /// Begins an operation of `ticks` ticks and returns the first. The operation before must be finished.
  std::uint64_t begin(std::uint64_t ticks);

  /// Slots of any rank; only one's own may be written, and only when free.
  std::byte* input(int rank, std::uint64_t tick) const;
  std::byte* result(int rank, std::uint64_t tick) const;
  /// True once this rank may write its slot of the tick.
  bool input_free(std::uint64_t tick) { return free_to_write(tick, &Seen::reduced, &transport::TickLines::reduced); }
  bool result_free(std::uint64_t tick) { return free_to_write(tick, &Seen::copied, &transport::TickLines::copied); }

  /// Store a flag and wake who may sleep for it.
  void publish(std::uint64_t tick);
  void set_reduced(std::uint64_t tick);
  void set_copied(std::uint64_t tick);
  /// The last flags of an operation that has stored them in part: reduced and copied.
  void finish(std::uint64_t last_tick);

  bool has_published(int rank, std::uint64_t tick);
  bool has_reduced(int rank, std::uint64_t tick);
  bool all_published(std::uint64_t tick);
  bool all_reduced(std::uint64_t tick);

  /// The peers that have not published, reduced or copied the tick, ascending; for reports.
  std::vector<int> not_published(std::uint64_t tick) const;
  std::vector<int> not_reduced(std::uint64_t tick) const;
  /// The peers that keep this rank from writing its slot of the tick, ascending; for reports.
  std::vector<int> holding_input(std::uint64_t tick) const { return holding(&transport::TickLines::reduced, tick); }
  std::vector<int> holding_result(std::uint64_t tick) const { return holding(&transport::TickLines::copied, tick); }

  /// The rank `distance` after this one. Each rank visits its peers in this order, so that not all read one first.
  int after(int distance) const { return (rank_ + distance) % size_; }
  /// Room for one pointer per rank, for the arguments of a reduction.
  std::span<const void*> pointers() { return pointers_; }

 private:
  /// What was last seen of a peer's flags; looked at again only when it does not suffice.
  struct Seen {
    std::uint64_t published = 0;
    std::uint64_t reduced = 0;
    std::uint64_t copied = 0;
    std::uint64_t finished = 0;  ///< by (*): done with all ticks up to this
  };

  const transport::TickLines& ticks(int rank) const { return arena_.control(rank).ticks; }
  Seen& seen(int rank) { return seen_[static_cast<std::size_t>(rank)]; }
  bool free_to_write(std::uint64_t tick, std::uint64_t Seen::*seen_flag,
                     transport::TickLine transport::TickLines::*line);
  std::vector<int> lacking(transport::TickLine transport::TickLines::*line, std::uint64_t tick) const;
  std::vector<int> holding(transport::TickLine transport::TickLines::*line, std::uint64_t tick) const;
  int slot(std::uint64_t tick) const;

  transport::HostArena& arena_;
  const int rank_;
  const int size_;
  transport::TickLines& own_;
  std::uint64_t last_ = 0;   ///< last tick given out
  std::uint64_t first_ = 1;  ///< first tick of the operation under way
  std::vector<Seen> seen_;
  std::vector<const void*> pointers_;
};

}  // namespace ronde::collectives
