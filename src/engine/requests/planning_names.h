// PlanningNames: hints at the bucket in which replay may find an unnamed call (agreement/call_places.h). A planning
// name stands for the last calls in their order, up to this one: a loop that makes the same calls each time comes to
// the same planning names each time, and finds back to them by itself some calls after something irregular. Which of
// several tensors in shared memory a call has is part of it, since a bucket of shared tensors is made for places in
// memory.
//
// Like a call's number (call_order.h) it is a function of the calls that this rank has made before it, and of nothing
// else. Ranks whose planning names differ lose time and nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "types/request.h"

namespace ronde::engine {

/// One thread at a time, in the order of the submits.
class PlanningNames {
 public:
  /// Calls that the planning name stands for.
  static constexpr std::size_t kWindow = 16;

  /// Of a call that is about to be submitted, or of what belongs to one, which counts as none; empty if replay has no
  /// use for its kind. `place`: where its tensor lies in this rank's memory.
  std::string of(const Request& request, const MemoryPlace& place);
  /// This rank has joined, and so has not made the calls that others have made: the last ones count no more.
  void forget_last();

 private:
  struct Recent {
    std::uint64_t number = 0;
    std::uint64_t context = 0;
  };

  std::uint64_t context_of(const Request& request);
  std::size_t index_of(std::uint64_t context, const MemoryPlace& place);

  std::array<std::uint64_t, kWindow> last_{};  ///< what the last calls were, a ring
  std::size_t at_ = 0;
  std::uint64_t context_ = 0;   ///< of last_
  std::vector<Recent> recent_;  ///< the last calls, a ring by number
  /// Of the places seen in a context, by a hash of the place, which was the n-th.
  std::unordered_map<std::uint64_t, std::unordered_map<std::uint64_t, std::size_t>> places_;
  std::size_t places_seen_ = 0;
};

}  // namespace ronde::engine
