// TwoPhaseOrder: when each phase of each chunk comes in a schedule of two phases. The first phases of some chunks go
// before the second of the first of them, so that there is something to send while a chunk is reduced or passed on, or
// a rank is late:
//
//     stage    0      1      2      3      4      5      6    ...   2n-1
//     phase    1(0)   1(1)   1(2)   1(3)   2(0)   1(4)   2(1)       2(n-1)
#pragma once

#include <algorithm>
#include <cstddef>

namespace ronde::collectives {

class TwoPhaseOrder {
 public:
  /// How many chunks a rank may send of before it has what it needs of the first of them.
  static constexpr std::size_t kAhead = 4;

  struct At {
    bool is_first;  ///< of the two phases
    std::size_t chunk;
    std::size_t after;  ///< how many stages a rank has finished before it sends what this one sends
  };

  explicit TwoPhaseOrder(std::size_t chunks) : chunks_(chunks), ahead_(std::min(kAhead, chunks)) {}

  std::size_t stages() const { return 2 * chunks_; }

  At at(std::size_t stage) const {
    // The first phases of some chunks; then, in turn, the second of one and the first of another; the second of the
    // last.
    const std::size_t in_turn = 2 * (chunks_ - ahead_);
    if (stage < ahead_ || (stage < ahead_ + in_turn && (stage - ahead_) % 2 == 1)) {
      const std::size_t chunk = stage < ahead_ ? stage : ahead_ + (stage - ahead_) / 2;
      return {true, chunk, chunk < ahead_ ? 0 : stage_of_first(chunk - ahead_) + 1};
    }
    const std::size_t chunk =
        stage < ahead_ + in_turn ? (stage - ahead_) / 2 : stage - ahead_ - in_turn + chunks_ - ahead_;
    return {false, chunk, stage_of_first(chunk) + 1};
  }

 private:
  std::size_t stage_of_first(std::size_t chunk) const {
    return chunk < ahead_ ? chunk : ahead_ + 2 * (chunk - ahead_) + 1;
  }

  const std::size_t chunks_;
  const std::size_t ahead_;
};

}  // namespace ronde::collectives
