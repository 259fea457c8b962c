// StagingSlots: memory of this rank through which long messages go to one receiver, who reaches it: a few slots, each
// with a piece until the receiver has taken it. They belong to one receiver: one that is stopped keeps only its own
// messages waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/reachable_memory.h"

namespace ronde::engine {

/// Under the progress lock.
class StagingSlots {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{128} << 10;
  static constexpr int kSlots = 4;

  struct Slot {
    int number = 0;
    std::byte* memory = nullptr;
    std::int64_t place = 0;  ///< of the memory
  };

  /// Takes the slots, at the first call. False if there are none, now and for good: pieces go in messages then.
  bool open(transport::ReachableMemory& memory);
  bool is_full() const { return free_.empty(); }
  /// Requires: open() and not is_full().
  Slot take();
  void give_back(int number) { free_.push_back(number); }

 private:
  std::shared_ptr<void> memory_;
  std::int64_t place_ = 0;
  std::vector<int> free_;
  bool refused_ = false;  ///< once it was asked for in vain
};

}  // namespace ronde::engine
