// CallQueues: the unnamed calls that wait for a place in a bucket which an earlier call has taken, in a queue behind
// each such place, in the order in which they were made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "types/request.h"

namespace ronde::agreement {

/// An unnamed call.
struct Call {
  std::string name;
  Descriptor descriptor;
  Nanoseconds deadline = kNever;
  std::uint64_t order = 0;  ///< among this rank's
};

/// Places are indices in the request table.
class CallQueues {
 public:
  void push(std::uint32_t place, Call call);
  /// Calls wait behind this place.
  bool has_any(std::uint32_t place) const { return queues_.contains(place); }
  /// The next of them, which waits no more.
  std::optional<Call> pop(std::uint32_t place);
  /// All that wait, by place; none does afterwards.
  std::vector<std::pair<std::uint32_t, Call>> take_all();
  /// How many wait.
  std::size_t size() const { return size_; }
  /// The earliest of those that are first in their queues; kNever if none has one.
  Nanoseconds next_deadline() const;

 private:
  std::unordered_map<std::uint32_t, std::deque<Call>> queues_;  ///< by place; none is empty
  std::size_t size_ = 0;                                        ///< of all queues
};

}  // namespace ronde::agreement
