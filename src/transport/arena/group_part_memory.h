// A group's part of this rank's heap of the host, as memory: how much of it a group needs, made before the group's
// arena (group_arena.h) and given back after it.
//
// A rank may give its part back once no member touches it any more, and nobody can look for that in memory that may be
// gone. So each member, when it goes, tells every other in the other's own part, as its last access to it; who has been
// told by all looks at its own memory alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "transport/arena/own_heap.h"
#include "transport/arena/region_layout.h"

namespace ronde::transport {

/// Where in a member's heap its part of a group lies.
struct GroupPlace {
  std::size_t offset = 0;  ///< multiples of kHugePageBytes, both
  std::size_t bytes = 0;   ///< at least least_group_bytes()
};

/// Room that a group of so many ranks needs at least, and a good measure where so many bytes are left for groups.
std::size_t least_group_bytes(int size);
std::size_t usual_group_bytes(int size, std::size_t left);

/// Makes the part of a group of so many ranks exist, but for the slots and the heap, all zero. Before any member makes
/// its arena; then see to it that all have. OUT_OF_MEMORY as OwnHeap::commit().
Status open_group_part(OwnHeap& host, const GroupPlace& place, int size);
/// Gives the memory back. Nobody may use it any more.
inline void close_group_part(OwnHeap& host, const GroupPlace& place) { host.discard(place.offset, place.bytes); }

/// `member` leaves the group of which `owner` has its part in `region`: its last access to that.
void leave_group_part(std::byte* region, const RegionLayout& layout, int owner, int member);
/// Of this rank's part, as `own` of so many: whether this member has left it.
bool has_left_group_part(const OwnHeap& host, const GroupPlace& place, int size, int own, int member);
/// Of a part whose arena here is gone: whether all other members' arenas are gone too. `gone`: says of a member, by its
/// number in the group, that its process has ended.
template <typename IsGone>
bool is_group_part_left(const OwnHeap& host, const GroupPlace& place, int size, int own, const IsGone& gone) {
  for (int member = 0; member < size; ++member) {
    if (member != own && !has_left_group_part(host, place, size, own, member) && !gone(member)) {
      return false;
    }
  }
  return true;
}

}  // namespace ronde::transport
