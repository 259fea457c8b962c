// The stall report: which tensors have waited too long, which ranks have them and which miss them. Only words: it
// never ends a job.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"

namespace ronde::observe {

/// A name that some ranks have submitted and others have not.
struct Waiting {
  std::string name;
  std::string what;          ///< what was asked for, in words
  std::vector<int> ready;    ///< global ranks that have submitted it
  std::vector<int> missing;  ///< global ranks that have not
  Nanoseconds since = 0;     ///< first submission
};

/// Decides when to speak and what to say. No clock and no log of its own.
class StallReport {
 public:
  /// `period`: after this long a waiting tensor is named, and then again every period. kNever: never.
  explicit StallReport(Nanoseconds period) : period_(period) {}

  /// Whether report() is due if something waits at all; cheap.
  bool is_due(Nanoseconds now) const { return now >= next_; }
  /// When to look again.
  Nanoseconds next() const { return next_; }
  /// The lines to log now: one per tensor that has waited a period or longer (at most kMaxLines, then a count).
  /// `waiting` is oldest first.
  std::vector<std::string> report(const std::vector<Waiting>& waiting, Nanoseconds now);

  static constexpr std::size_t kMaxLines = 16;

 private:
  Nanoseconds period_;
  Nanoseconds next_ = 0;
};

}  // namespace ronde::observe
