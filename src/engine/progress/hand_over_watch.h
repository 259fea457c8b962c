// HandOverWatch: whether the time that a hand-over between two cores takes has changed since it was measured for the
// table in force. Two looks in a row must say so, since one may have met something else that runs.
#pragma once

#include <optional>

namespace ronde::engine {

/// One thread at a time. Times are in any one unit.
class HandOverWatch {
 public:
  enum class Verdict {
    unchanged,
    unclear,  ///< look again soon
    changed,  ///< measure all anew: unless settle() is called, the next look that differs says so again
  };

  /// `measured`: what the table in force follows from; none: it was not measured, and there is nothing to look at.
  explicit HandOverWatch(std::optional<double> measured) : measured_(measured) {}

  bool is_measured() const { return measured_.has_value(); }
  /// The last look said that it has changed.
  bool suspects() const { return suspects_; }
  /// What a look has found, none where the cores were busy. Requires: is_measured().
  Verdict look(std::optional<double> found) {
    if (!found) {
      return Verdict::unclear;
    }
    if (*found <= kChange * *measured_ && kChange * *found >= *measured_) {
      suspects_ = false;
      return Verdict::unchanged;
    }
    const bool is_second = suspects_;
    suspects_ = true;
    return is_second ? Verdict::changed : Verdict::unclear;
  }
  /// All was measured anew.
  void settle(double measured) {
    measured_ = measured;
    suspects_ = false;
  }

 private:
  /// It has changed if it is so many times longer or shorter.
  static constexpr double kChange = 1.6;

  std::optional<double> measured_;
  bool suspects_ = false;
};

}  // namespace ronde::engine
