#include "transport/arena/own_heap.h"

namespace ronde::transport {

std::int64_t OwnHeap::offset_of(const void* data, std::size_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  const auto first = reinterpret_cast<std::uintptr_t>(begin_);
  if (bytes_ == 0 || at < first || at - first > bytes_ || bytes > bytes_ - (at - first)) {
    return -1;
  }
  return is_withdrawn(at - first, bytes) ? -1 : static_cast<std::int64_t>(at - first);
}

}  // namespace ronde::transport
