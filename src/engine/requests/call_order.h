// CallOrder: what an unnamed call is called. Ranks pair such calls by their order alone, so both names that a call has
// are functions of the calls that this rank has made before it, and of nothing else: not of what it has waited for, not
// of what has ended.
//
//  - Its name is its number: barriers and joins called before, then calls since the last of these. By it ranks meet.
//  - Its planning name is a hint at the bucket in which replay may find it (agreement/call_places.h). It stands for the
//    last calls in their order, up to this one: a loop that makes the same calls each time comes to the same planning
//    names each time, and finds back to them by itself some calls after something irregular. Which of several tensors
//    in shared memory a call has is part of it, since a bucket of shared tensors is made for places in memory.
//
// Ranks whose planning names differ lose time and nothing else.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "types/request.h"

namespace ronde::engine {

class CallOrder {
 public:
  /// Calls that the planning name stands for.
  static constexpr std::size_t kWindow = 16;
  static constexpr int kCallBits = 40;

  /// The next call's number: barriers and joins called before, then 40 bits of calls since, from 1 on. Any thread.
  std::uint64_t take_number();
  /// A barrier is called: a rank that has made a call more than the others is in step again after it. Returns the
  /// number of the last call before it. Any thread.
  std::uint64_t restart();
  /// All ranks have joined. Those that had not before may have called barriers meanwhile: so many restarts count now.
  void restart_at(std::uint64_t restarts);
  /// Any thread.
  std::uint64_t last_number() const;

  /// Of a call that is about to be submitted, or of what belongs to one, which counts as none; empty if replay has no
  /// use for its kind. In the order of the submits, one thread at a time. `place`: where its tensor lies in this rank's
  /// memory.
  std::string planning_name(const Request& request, const MemoryPlace& place);

  /// "noname.<barriers and joins>.<calls since>"
  static std::string name_of(std::uint64_t number);

 private:
  struct Recent {
    std::uint64_t number = 0;
    std::uint64_t context = 0;
  };

  void forget_last();
  std::uint64_t context_of(const Request& request);
  std::size_t index_of(std::uint64_t context, const MemoryPlace& place);

  std::atomic<std::uint64_t> next_{1};

  std::array<std::uint64_t, kWindow> last_{};  ///< what the last calls were, a ring
  std::size_t at_ = 0;
  std::uint64_t context_ = 0;   ///< of last_
  std::vector<Recent> recent_;  ///< the last calls, a ring by number
  /// Of the places seen in a context, by a hash of the place, which was the n-th.
  std::unordered_map<std::uint64_t, std::unordered_map<std::uint64_t, std::size_t>> places_;
  std::size_t places_seen_ = 0;
};

}  // namespace ronde::engine
