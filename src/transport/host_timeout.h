// HostTimeout: within which time a host that has vanished is noticed, whatever carries what its ranks send.
#pragma once

#include "base/clock.h"

namespace ronde::transport {

class HostTimeout {
 public:
  /// All of it happens within `limit`, of at least 3 s, after the last word; kNever: a silent host is waited for.
  explicit HostTimeout(Nanoseconds limit) : limit_(limit) {}

  bool is_ever() const { return limit_ != kNever; }
  Nanoseconds limit() const { return limit_; }
  /// How often connections are looked at while something is under way.
  Nanoseconds tick() const { return limit_ / 20; }
  /// So long nothing comes only of a host that is not there: one that is there answers whatever it is asked, and is
  /// asked as well where nothing is under way.
  Nanoseconds longest_silence() const { return limit_ / 4 * 3; }

 private:
  Nanoseconds limit_;
};

}  // namespace ronde::transport
