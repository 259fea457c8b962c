// GroupArena: the arena of some ranks of a host, made within the host's own: each member gives a part of its heap for
// the group's control block, rings and slots, and for what its engine needs besides. So a group needs no descriptor, no
// mapping and no thread of its own, and its address space is the host's.
//
// Bells, deaths and names are those of the host's arena. The bells call the group (host_bells.h).
//
//     host's heap:   engine's own | parts of groups | callers'
//                                   ^ offset        ^
//                                   control block, rings, slots | engine's own, callers'    <- the group's region
//                                                                 ^ its heap, to the end of the host's
//
// Each member chooses its offset by itself and tells the others. So tensors in the callers' part have an offset in the
// heap of each group too, counted from where the group's begins in that rank, and are reduced where they lie by any.
// Unlike a host's own arena nothing keeps a member from writing to a peer's rings and slots by mistake: the heap is
// writable for all.
//
// Memory. A host's slots exist from the meeting on. Of a group's only the lines and rings do, some ten kilobytes a
// peer; its slots are made when first something is so large that it needs them, need_slots().
//
// The part is made before and given back after the arena: group_part_memory.h.
#pragma once

#include <cstddef>
#include <vector>

#include "transport/arena/arena.h"
#include "transport/arena/group_part_memory.h"

namespace ronde::transport {

/// What a member tells the others.
struct GroupMember {
  int rank = 0;            ///< of the host
  std::size_t offset = 0;  ///< of its place
  int call = 0;            ///< the group's number in this rank's CallLine
};

class GroupArena final : public HostArena {
 public:
  /// `members`: in the order of the group; this rank is one of them, and its offset that of `place`. All have opened
  /// their parts. `host` must outlive this.
  GroupArena(HostArena& host, const std::vector<GroupMember>& members, const GroupPlace& place);
  /// Touches nothing of the others' parts any more, and tells them.
  ~GroupArena() override;

  Status need_slots(std::size_t bytes) override;

 private:
  static Parts parts_of(HostArena& host, const std::vector<GroupMember>& members, const GroupPlace& place);

  OwnHeap& host_;
  const std::size_t offset_;          ///< of this rank's part, in the host's heap
  std::size_t ready_slot_bytes_ = 0;  ///< of each slot
};

}  // namespace ronde::transport
