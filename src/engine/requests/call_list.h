// CallList: unnamed calls that a program makes without waiting in between. It could have made each of them when it made
// the first, so all are asked for as of then. The calls share this, since they end, are waited for and go one by one.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ronde::engine {

/// Under the gate of replay.
class CallList {
 public:
  /// The coordinator is asked for one of the calls. `position`: how many log entries this rank has read now. Gives how
  /// many it had read when the coordinator was asked for the first.
  std::uint64_t asked_at(std::uint64_t position) {
    asked_at_ = std::min(asked_at_, position);
    return asked_at_;
  }

 private:
  std::uint64_t asked_at_ = UINT64_MAX;
};

}  // namespace ronde::engine
