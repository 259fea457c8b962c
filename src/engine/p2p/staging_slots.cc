#include "engine/p2p/staging_slots.h"

#include <utility>

namespace ronde::engine {

bool StagingSlots::open(transport::ReachableMemory& memory) {
  if (memory_ || refused_) {
    return memory_ != nullptr;
  }
  refused_ = true;
  if (!memory.reaches_members()) {
    return false;
  }
  Result<std::shared_ptr<void>> slots = memory.allocate(kSlots * kSlotBytes);
  if (!slots) {
    return false;
  }
  memory_ = std::move(*slots);
  place_ = memory.place_of(memory_.get(), kSlots * kSlotBytes);
  for (int slot = kSlots - 1; slot >= 0; --slot) {
    free_.push_back(slot);
  }
  return true;
}

StagingSlots::Slot StagingSlots::take() {
  const int number = free_.back();
  free_.pop_back();
  const std::size_t at = static_cast<std::size_t>(number) * kSlotBytes;
  return {number, static_cast<std::byte*>(memory_.get()) + at, place_ + static_cast<std::int64_t>(at)};
}

}  // namespace ronde::engine
