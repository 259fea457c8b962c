// CallNumbers: which bits of this rank's CallLine its groups have (group_calls.h), so that no two groups have the same.
#pragma once

#include <bitset>
#include <optional>

#include "transport/group_calls.h"

namespace ronde::transport {

class CallNumbers {
 public:
  /// The lowest number that no group has; none: kCallBits groups have one.
  std::optional<int> take();
  /// Requires: it is taken.
  void give_back(int call) { is_taken_.reset(static_cast<std::size_t>(call)); }
  /// How many are taken.
  int taken() const { return static_cast<int>(is_taken_.count()); }

 private:
  std::bitset<kCallBits> is_taken_;
};

}  // namespace ronde::transport
