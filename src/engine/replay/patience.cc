#include "engine/replay/patience.h"

#include <algorithm>

namespace ronde::engine {

namespace {

constexpr Nanoseconds kHalfFull = 2 * kMillisecond;
constexpr Nanoseconds kUsualFills = 8;
constexpr Nanoseconds kWithPeersAtFirst = kSecond;
constexpr Nanoseconds kWithPeersAtLast = 64 * kSecond;
/// So many instances that no look has met in a row, and peers are not taken for late any more.
constexpr std::uint64_t kQuickOnes = 8;

}  // namespace

void Patience::filled(Nanoseconds now) { usual_fill_ = (3 * usual_fill_ + now - filling_since_) / 4; }

Nanoseconds Patience::waited(std::uint64_t instance, Nanoseconds now) {
  if (since_ == 0 || seen_instance_ != instance) {
    since_ = now;
    wanted_since_ = 0;
    const bool many_were_quick = instance > seen_instance_ + kQuickOnes;
    seen_instance_ = instance;
    with_peers_ = many_were_quick ? kWithPeersAtFirst : std::max(with_peers_, kWithPeersAtFirst);
  }
  return now - since_;
}

agreement::Reason Patience::judge(Nanoseconds now, bool is_half_full, bool is_wanted, Nanoseconds stall) {
  const Nanoseconds most = stall > 0 ? std::min(with_peers_, stall / 2) : with_peers_;
  const bool is_too_long = now - since_ >= most;
  if (is_half_full) {
    wanted_since_ = wanted_since_ == 0 && is_wanted ? now : wanted_since_;
    const bool is_missed = wanted_since_ != 0 && now - wanted_since_ >= std::max(kHalfFull, kUsualFills * usual_fill_);
    return is_missed || is_too_long ? agreement::Reason::stall : agreement::Reason::none;
  }
  if (!is_too_long) {
    return agreement::Reason::none;
  }
  with_peers_ = std::min(2 * with_peers_, kWithPeersAtLast);
  return agreement::Reason::late_peers;
}

}  // namespace ronde::engine
