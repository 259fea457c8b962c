// GroupPlaces: which parts of this rank's heap its groups have. Each rank gives out its own and tells the others:
// nothing here must be the same anywhere else. Offsets only: no memory is touched (open_group_part).
#pragma once

#include <cstdint>
#include <optional>

#include "transport/arena/group_part_memory.h"
#include "transport/arena/heap_map.h"

namespace ronde::transport {

class GroupPlaces {
 public:
  /// `range`: what groups may have of the heap; it begins at a multiple of kHugePageBytes.
  explicit GroupPlaces(HeapRange range) : map_(range) {}

  /// For a group of so many ranks: a good measure, or the least where what is left is in pieces. None: there is no
  /// room.
  std::optional<GroupPlace> reserve(int size);
  /// Requires: it is reserved.
  void free(const GroupPlace& place) { map_.free(static_cast<std::int64_t>(place.offset)); }

 private:
  HeapMap map_;
};

}  // namespace ronde::transport
