#include "transport/arena/group_places.h"

#include <cstddef>

namespace ronde::transport {

std::optional<GroupPlace> GroupPlaces::reserve(int size) {
  for (const std::size_t bytes : {usual_group_bytes(size, map_.bytes_free()), least_group_bytes(size)}) {
    if (const std::optional<std::int64_t> offset = map_.allocate(bytes, kHugePageBytes)) {
      return GroupPlace{static_cast<std::size_t>(*offset), bytes};
    }
  }
  return std::nullopt;
}

}  // namespace ronde::transport
