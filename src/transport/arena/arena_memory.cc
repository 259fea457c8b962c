#include "transport/arena/arena_memory.h"

namespace ronde::transport {

const std::byte* ArenaMemory::find(int member, std::int64_t place, std::uint64_t bytes) const {
  const auto all = reaches_members() ? static_cast<std::int64_t>(arena_.layout().heap_bytes) : 0;
  const bool lies_there = place >= 0 && place < all && bytes <= static_cast<std::uint64_t>(all - place);
  return lies_there ? arena_.heap(member) + place : nullptr;
}

void ArenaMemory::end(bool have_all_left) {
  if (owns_heap_) {
    heap_->close();
  } else if (!have_all_left) {
    heap_->distrust();
  }
}

}  // namespace ronde::transport
