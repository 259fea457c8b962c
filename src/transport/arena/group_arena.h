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
// The end. A rank may give its part back once no member touches it any more, and nobody can look for that in memory
// that may be gone. So each member, when it goes, tells every other in the other's own part, as its last access to it;
// who has been told by all looks at its own memory alone, has_been_left().
#pragma once

#include <cstddef>
#include <vector>

#include "transport/arena/arena.h"

namespace ronde::transport {

/// Where in a member's heap its part of a group lies.
struct GroupPlace {
  std::size_t offset = 0;  ///< multiples of kHugePageBytes, both
  std::size_t bytes = 0;   ///< at least GroupArena::least_bytes()
};

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

  /// Room that a group of so many ranks needs at least, and a good measure where so many bytes are left for groups.
  static std::size_t least_bytes(int size);
  static std::size_t usual_bytes(int size, std::size_t left);

  // Of the part in this rank's heap of the host.

  /// Makes the part of a group of so many ranks exist, but for the slots and the heap, all zero. Before any member
  /// makes its arena; then see to it that all have.
  static Status open(OwnHeap& host, const GroupPlace& place, int size);
  /// Of a part that was opened for so many ranks and whose arena here is gone: whether all other members' arenas are
  /// gone too. `gone`: says of a member, by its number in the group, that its process has ended.
  template <typename IsGone>
  static bool has_been_left(const OwnHeap& host, const GroupPlace& place, int size, int own, const IsGone& gone) {
    for (int member = 0; member < size; ++member) {
      if (member != own && !has_left(host, place, size, own, member) && !gone(member)) {
        return false;
      }
    }
    return true;
  }
  /// Gives the memory back. Nobody may use it any more.
  static void close(OwnHeap& host, const GroupPlace& place) { host.discard(place.offset, place.bytes); }

  Status need_slots(std::size_t bytes) override;

 private:
  static Parts parts_of(HostArena& host, const std::vector<GroupMember>& members, const GroupPlace& place);
  static bool has_left(const OwnHeap& host, const GroupPlace& place, int size, int own, int member);

  OwnHeap& host_;
  const std::size_t offset_;          ///< of this rank's part, in the host's heap
  std::size_t ready_slot_bytes_ = 0;  ///< of each slot
};

}  // namespace ronde::transport
