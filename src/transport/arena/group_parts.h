// GroupParts: this rank's part of each of its groups, from when it is reserved until all members have left: which part
// of the heap (GroupPlaces) and which number in the CallLine (CallNumbers) the group has.
//
// What a group leaves is given out again once all its members have left it: looked at whenever room is asked for.
// Groups of ranks that share no memory have no part of a heap: they go by a number that no other group of this rank
// has.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "transport/arena/arena.h"
#include "transport/arena/group_part_memory.h"
#include "transport/arena/group_places.h"
#include "transport/call_numbers.h"

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
class GroupParts {
 public:
  /// Says of a rank of the job that its process has ended.
  using HasEnded = std::function<bool(int)>;

  /// `heap`, of the job's arena, must outlive this. `rank`: this one's in the job. `shares_memory`: in the arena, all
  /// ranks of the job do.
  GroupParts(OwnHeap& heap, int rank, bool shares_memory);

  /// A part for a group of these ranks, opened (open_group_part). OUT_OF_MEMORY if there is no room.
  Result<GroupPart> reserve(const std::vector<int>& ranks, const HasEnded& has_ended);
  /// Of a part, by its call, that no member has made an arena of, nor will.
  void give_back(int call);
  /// This rank's arena over it is gone.
  void leave(int call, const HasEnded& has_ended);
  /// The part. Requires: it is reserved.
  GroupPart part(int call) const;
  /// How many parts are taken; those count that were left here and, when last looked, not by all members.
  std::size_t taken() const;

 private:
  void sweep(const HasEnded& has_ended);
  bool has_been_left(const GroupPart& part, const HasEnded& has_ended) const;
  void free(int call);
  Result<GroupPlace> open_place(int size);
  Status is_full() const;
  const GroupPart& at(int call) const { return parts_.find(call)->second; }

  OwnHeap& heap_;
  const int rank_;
  const bool shares_memory_;
  mutable std::mutex mutex_;
  GroupPlaces places_;  ///< guarded by mutex_, as all below
  CallNumbers calls_;
  std::map<int, GroupPart> parts_;  ///< by call
  std::uint64_t next_number_ = 1;
  std::vector<int> left_;  ///< by their calls, those left here and not by all members when last looked
};

}  // namespace ronde::transport
