#include "engine/replay/bucket_watch.h"

#include <algorithm>

namespace ronde::engine {

namespace {

/// How often is looked: often while a half full bucket is waited for.
constexpr Nanoseconds kLookOften = kMillisecond;
constexpr Nanoseconds kLookSeldom = 250 * kMillisecond;
/// Looks that waiters ask for do not come closer together than this: each goes over all buckets.
constexpr Nanoseconds kLookGap = 200 * kMicrosecond;

}  // namespace

bool BucketWatch::is_due(Nanoseconds now) {
  const bool soon = look_soon_.load(std::memory_order_relaxed) && now >= later(last_, kLookGap);
  if (now < next_ && !soon) {
    return false;
  }
  look_soon_.store(false, std::memory_order_relaxed);
  last_ = now;
  next_ = later(now, kLookSeldom);
  return true;
}

void BucketWatch::look_often(Nanoseconds now) { next_ = later(now, kLookOften); }

Nanoseconds BucketWatch::next() const {
  if (!under_way_.load(std::memory_order_relaxed)) {
    return kNever;
  }
  return look_soon_.load(std::memory_order_relaxed) ? std::min(next_, later(last_, kLookGap)) : next_;
}

}  // namespace ronde::engine
