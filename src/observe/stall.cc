#include "observe/stall.h"

#include <algorithm>

namespace ronde::observe {

namespace {

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  }
  return text;
}

std::string line(const Waiting& waiting, Nanoseconds now) {
  return "stalled for " + std::to_string((now - waiting.since) / kSecond) + " s: " + waiting.what + " named '" +
         waiting.name + "' waits for " + list(waiting.missing) + "; " + list(waiting.ready) +
         (waiting.ready.size() == 1 ? " has" : " have") + " submitted it";
}

}  // namespace

std::vector<std::string> StallReport::report(const std::vector<Waiting>& waiting, Nanoseconds now) {
  std::vector<std::string> lines;
  if (period_ == kNever) {
    next_ = kNever;
    return lines;
  }
  if (waiting.empty()) {
    next_ = now;  // look whenever asked: something may begin to wait at any time
    return lines;
  }
  std::size_t stalled = 0;
  Nanoseconds next = kNever;
  for (const Waiting& each : waiting) {
    const Nanoseconds due = later(each.since, period_);
    if (due > now) {
      next = std::min(next, due);
      continue;
    }
    if (++stalled <= kMaxLines) {
      lines.push_back(line(each, now));
    }
  }
  if (stalled > kMaxLines) {
    lines.push_back("and " + std::to_string(stalled - kMaxLines) + " more tensors wait as long");
  }
  next_ = stalled > 0 ? std::min(next, later(now, period_)) : next;
  return lines;
}

}  // namespace ronde::observe
