// ObservedInstance: when the instance of a bucket that is under way came to each of its stages, for who observes.
#pragma once

#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "observe/observer.h"

namespace ronde::engine {

class ObservedInstance {
 public:
  /// Full on this rank.
  void published(Nanoseconds now) { instance_.published = now; }
  /// All ranks had published it at `now`, or later: the first look that says so counts.
  void met(Nanoseconds now) { instance_.met = instance_.met == 0 ? now : instance_.met; }
  /// It is complete. What is known of it; from now on another instance is under way.
  observe::Instance done(std::uint64_t number, Nanoseconds now) {
    observe::Instance instance = std::exchange(instance_, {});
    instance.number = number;
    instance.done = now;
    return instance;
  }
  /// Another observes from now on, or nobody.
  void forget() { instance_ = {}; }

 private:
  observe::Instance instance_ = {};
};

}  // namespace ronde::engine
