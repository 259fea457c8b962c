// HostTimeout: within which time a host that has vanished is noticed, whatever carries what its ranks send.
#pragma once

#include "base/clock.h"

namespace ronde::transport {

class HostTimeout {
 public:
  /// A host is known to have vanished within `limit` (at least 3 s) after the last that came from it; kNever: it is
  /// waited for.
  explicit HostTimeout(Nanoseconds limit) : limit_(limit) {}

  /// False: a silent host is waited for.
  bool is_ever() const { return limit_ != kNever; }
  Nanoseconds limit() const { return limit_; }
  /// How often connections are looked at while something is under way.
  Nanoseconds tick() const { return limit_ / 20; }
  /// A host from which nothing came for so long has vanished: one that is there answers whatever it is asked, and it is
  /// asked even where nothing is under way.
  Nanoseconds longest_silence() const { return limit_ / 4 * 3; }

 private:
  Nanoseconds limit_;
};

}  // namespace ronde::transport
