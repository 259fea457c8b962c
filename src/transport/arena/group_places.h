// GroupPlaces: which parts of this rank's heap its groups have, and their
// numbers in its CallLine. Each rank gives out its own and tells the others:
// nothing here must be the same anywhere else.
//
// What a group leaves is given out again once all its members have left it:
// looked at whenever room is asked for. Groups of ranks that share no memory
// have no part of a heap: they go by a number that no other group of this rank
// has.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "base/status.h"
#include "transport/arena/group_arena.h"
#include "transport/arena/heap_map.h"

namespace ronde::transport {

/// This rank's part of one group.
struct GroupPart {
  GroupPlace place;          ///< nothing where no memory is shared
  std::uint64_t number = 0;  ///< where no memory is shared: never given out again
  int call = 0;              ///< no other group that this rank has has it
  int own = 0;               ///< this rank's number in the group
  std::vector<int> ranks;    ///< of the job, in the order of the group
};

/// Any thread.
class GroupPlaces {
 public:
  /// Says of a rank of the job that its process has ended.
  using HasEnded = std::function<bool(int)>;

  /// `heap`, of the job's arena, must outlive this. `rank`: this one's in the
  /// job. `shares_memory`: in the arena, all ranks of the job do.
  GroupPlaces(OwnHeap& heap, int rank, bool shares_memory);

  /// A part for a group of these ranks, opened (GroupArena::open).
  /// OUT_OF_MEMORY if there is no room.
  Result<GroupPart> reserve(const std::vector<int>& ranks, const HasEnded& has_ended);
  /// Of a part, by its call, that no member has made an arena of, nor will.
  void give_back(int call);
  /// This rank's arena over it is gone.
  void leave(int call, const HasEnded& has_ended);
  /// The part. Requires: it is reserved.
  GroupPart part(int call) const;
  /// How many parts are taken; those count that were left here and, when last
  /// looked, not by all members.
  std::size_t taken() const;

 private:
  void sweep(const HasEnded& has_ended);
  void free(int call);
  const GroupPart& at(int call) const { return *parts_[static_cast<std::size_t>(call)]; }
  Result<GroupPlace> reserve_memory(int size);
  Status is_full() const;
  std::size_t count_taken() const;

  OwnHeap& heap_;
  const int rank_;
  const bool shares_memory_;
  mutable std::mutex mutex_;
  HeapMap map_;                                  ///< guarded by mutex_, as all below
  std::vector<std::optional<GroupPart>> parts_;  ///< by call
  std::uint64_t next_number_ = 1;
  std::vector<int> left_;  ///< by their calls, those left here and not by all
                           ///< members when last looked
};

}  // namespace ronde::transport
