#include "engine/staging_slots.h"

#include <utility>

namespace ronde::engine {

bool StagingSlots::open(transport::SharedHeap& heap, const transport::HostArena* arena) {
  if (arena != nullptr && !memory_ && !refused_) {
    Result<std::shared_ptr<void>> memory = heap.allocate(kSlots * kSlotBytes);
    refused_ = !memory;
    if (memory) {
      memory_ = std::move(*memory);
      place_ = arena->heap_offset_of(memory_.get(), kSlots * kSlotBytes);
      for (int slot = kSlots - 1; slot >= 0; --slot) {
        free_.push_back(slot);
      }
    }
  }
  return memory_ != nullptr;
}

StagingSlots::Slot StagingSlots::take() {
  const int number = free_.back();
  free_.pop_back();
  const std::size_t at = static_cast<std::size_t>(number) * kSlotBytes;
  return {number, static_cast<std::byte*>(memory_.get()) + at, place_ + static_cast<std::int64_t>(at)};
}

}  // namespace ronde::engine
