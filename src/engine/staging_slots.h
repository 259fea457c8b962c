// StagingSlots: memory of this rank's heap through which long messages go to one receiver, who has it mapped: a few
// slots, each with a piece until the receiver has taken it. They belong to one receiver: one that is stopped keeps only
// its own messages waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/shared_heap.h"
#include "transport/arena.h"

namespace ronde::engine {

/// Under the progress lock.
class StagingSlots {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{128} << 10;
  static constexpr int kSlots = 4;

  struct Slot {
    int number = 0;
    std::byte* memory = nullptr;
    std::int64_t place = 0;  ///< of the memory, in the heap
  };

  /// Takes the memory, at the first call. False if there is none, now and for good: pieces go in messages then.
  /// `arena`: where the heap lies, null where no memory is shared.
  bool open(transport::SharedHeap& heap, const transport::HostArena* arena);
  bool is_full() const { return free_.empty(); }
  /// Requires: open() and not is_full().
  Slot take();
  void give_back(int number) { free_.push_back(number); }

 private:
  std::shared_ptr<void> memory_;
  std::int64_t place_ = 0;
  std::vector<int> free_;
  bool refused_ = false;
};

}  // namespace ronde::engine
