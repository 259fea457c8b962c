// How long buckets wait before they come into force again. A program that breaks replay soon after each INSTALL pays
// for the INSTALLs and gains nothing, so the wait doubles from epoch to epoch, up to a limit, until an epoch has
// lasted. The rule is exponential backoff as of retries, counted in good answers in place of time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ronde::agreement {

class EpochBackoff {
 public:
  /// Good answers that a bucket's names must have before it comes into force again.
  std::uint32_t wait() const { return wait_; }
  /// A member has left the running epoch after so many instances of its buckets.
  void on_end(std::uint64_t instances) { is_healthy_ |= instances >= kInstancesOfHealth; }
  /// The running epoch has lasted.
  bool is_healthy() const { return is_healthy_; }
  /// All have left the epoch. `on_purpose`: it was ended to retire buckets, which says nothing of the program.
  void on_over(bool on_purpose) {
    if (is_healthy_ || wait_ == 0) {
      wait_ = 1;
    } else if (!on_purpose) {
      wait_ = std::min(2 * wait_, kLongestWait);
    }
    is_healthy_ = false;
  }

 private:
  static constexpr std::uint32_t kLongestWait = 64;
  static constexpr std::uint64_t kInstancesOfHealth = 1000;

  std::uint32_t wait_ = 0;
  bool is_healthy_ = false;
};

}  // namespace ronde::agreement
