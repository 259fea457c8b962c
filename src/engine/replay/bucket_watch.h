// BucketWatch: when clocks are looked at for the sake of buckets, and of which buckets: those in which something is
// under way, since there may be thousands that are not in use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace ronde::engine {

class BucketWatch {
 public:
  // ---- Any thread.

  /// What somebody waits for is looked at soon. True if that was not so before.
  bool look_soon() {
    return !look_soon_.load(std::memory_order_relaxed) && !look_soon_.exchange(true, std::memory_order_relaxed);
  }
  /// Something is under way, so clocks are looked at. True if that was not so before.
  bool begin() {
    return !under_way_.load(std::memory_order_relaxed) && !under_way_.exchange(true, std::memory_order_relaxed);
  }

  // ---- Under the progress lock.

  /// Whether it is time; then a look begins, and the next one is due some time after it.
  bool is_due(Nanoseconds now);
  /// kNever if nothing is under way.
  Nanoseconds next() const;

  // ---- Under the gate besides.

  /// A bucket that is half full is waited for.
  void look_often(Nanoseconds now);
  /// Another epoch begins.
  void look_at_once() { next_ = 0; }
  /// At the end of a look: whether anything is under way. If not, nothing is until begin().
  void end_look(bool is_under_way) { under_way_.store(is_under_way, std::memory_order_relaxed); }

  // ---- Under the gate.

  /// Requires: it is not watched.
  void add(std::uint32_t bucket) { buckets_.push_back(bucket); }
  void remove(std::uint32_t bucket) { std::erase(buckets_, bucket); }
  void reserve(std::size_t buckets) { buckets_.reserve(buckets); }
  /// Those for which this is true are not watched any more.
  template <typename Condition>
  void remove_if(const Condition& condition) {
    std::erase_if(buckets_, condition);
  }
  const std::vector<std::uint32_t>& buckets() const { return buckets_; }

 private:
  std::vector<std::uint32_t> buckets_;
  std::atomic<bool> under_way_{false};  ///< a hint
  std::atomic<bool> look_soon_{false};
  Nanoseconds next_ = 0;
  Nanoseconds last_ = 0;
};

}  // namespace ronde::engine
