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

#include "transport/arena/arena.h"

namespace ronde::collectives {

/// Where a channel's flags and slots lie in each rank's region, in bytes from its beginning.
struct ChannelPlace {
  std::size_t flags = 0;   ///< TickLines
  std::size_t inputs = 0;  ///< `slots` of slot_bytes
  std::size_t results = 0;
  std::size_t slot_bytes = 0;  ///< a multiple of a line
  std::size_t result_bytes = 0;
  int slots = 4;

  /// The place that every region has from the beginning.
  static ChannelPlace in_arena(const transport::RegionLayout& layout);
};

/// One per rank and place, used by one operation at a time, under the engine's progress lock.
class HostChannel {
 public:
  /// The channel of the region itself. `arena` must outlive the channel, which must be the only one over it.
  explicit HostChannel(transport::HostArena& arena) : HostChannel(arena, ChannelPlace::in_arena(arena.layout())) {}
  /// A further channel, at a place whose flags are 0 on every rank before any rank begins.
  HostChannel(transport::HostArena& arena, const ChannelPlace& place);

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t slot_bytes() const { return place_.slot_bytes; }
  std::uint64_t slots() const { return static_cast<std::uint64_t>(place_.slots); }
  transport::HostArena& arena() const { return arena_; }

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
  /// The same in an operation in which nobody goes on before all have published the tick: only the last rank to publish
  /// wakes the others. A rank that waits for a free slot of a later operation, by (*), may be woken later than it could
  /// be: by the last rank that publishes that operation's first tick. That rank does not wait for it, so this ends.
  void publish_for_all(std::uint64_t tick);
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
  /// Requires: distance < size(). A division would take as long as the look at a peer's word.
  int after(int distance) const {
    const int peer = rank_ + distance;
    return peer < size_ ? peer : peer - size_;
  }
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

  const transport::TickLines& ticks(int rank) const {
    return *reinterpret_cast<const transport::TickLines*>(regions_[static_cast<std::size_t>(rank)] + place_.flags);
  }
  Seen& seen(int rank) { return seen_[static_cast<std::size_t>(rank)]; }
  bool free_to_write(std::uint64_t tick, std::uint64_t Seen::*seen_flag,
                     transport::TickLine transport::TickLines::*line);
  std::vector<int> lacking(transport::TickLine transport::TickLines::*line, std::uint64_t tick) const;
  std::vector<int> holding(transport::TickLine transport::TickLines::*line, std::uint64_t tick) const;
  std::size_t slot(std::uint64_t tick) const { return tick % static_cast<std::uint64_t>(place_.slots); }

  transport::HostArena& arena_;
  const transport::HostBells& bells_;
  const ChannelPlace place_;
  const int rank_;
  const int size_;
  std::vector<std::byte*> regions_;
  transport::TickLines& own_;
  std::uint64_t last_ = 0;   ///< last tick given out
  std::uint64_t first_ = 1;  ///< first tick of the operation under way
  std::vector<Seen> seen_;
  std::vector<const void*> pointers_;
};

}  // namespace ronde::collectives
