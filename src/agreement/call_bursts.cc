#include "agreement/call_bursts.h"

#include <algorithm>

namespace ronde::agreement {

namespace {

/// Places of one planning name: a program that never waits makes one burst without an end.
constexpr std::uint64_t kFewestPlaces = 8;
constexpr std::uint64_t kMostPlaces = 4096;
constexpr std::uint64_t kMostBytes = 64 << 20;
/// Bursts of unequal lengths before the longest is taken for good enough.
constexpr std::uint32_t kPatience = 8;
/// Programs may never make the same calls again.
constexpr std::size_t kNamesKept = 1 << 16;

}  // namespace

std::uint32_t CallBursts::on_answer(const std::string& planning_name, std::uint64_t bytes, std::uint64_t asked,
                                    std::uint64_t answered) {
  if (bursts_.size() >= kNamesKept) {
    std::erase_if(bursts_, [](const auto& entry) { return entry.second.length == 0; });
  }
  Burst& burst = bursts_[planning_name];
  const std::uint64_t most = std::clamp(kMostBytes / std::max<std::uint64_t>(bytes, 1), kFewestPlaces, kMostPlaces);
  if (burst.calls > 0 && (asked >= burst.answered || burst.calls >= most)) {
    end(burst);
  }
  burst.answered = answered;
  return burst.calls++;
}

void CallBursts::end(Burst& burst) {
  burst.longest = std::max(burst.longest, burst.calls);
  if (burst.calls == burst.last) {
    burst.length = burst.calls;
    burst.unequal = 0;
    burst.is_uneven = false;
  } else if (burst.length != burst.calls && ++burst.unequal == kPatience) {
    burst.length = burst.longest;
    burst.is_uneven = true;
  }
  burst.last = burst.calls;
  burst.calls = 0;
}

std::uint32_t CallBursts::forget_length(const std::string& planning_name) {
  const auto found = bursts_.find(planning_name);
  if (found == bursts_.end()) {
    return 0;
  }
  const std::uint32_t length = found->second.length;
  found->second = {};
  return length;
}

std::uint32_t CallBursts::length(const std::string& planning_name) const {
  const auto found = bursts_.find(planning_name);
  return found == bursts_.end() ? 0 : found->second.length;
}

bool CallBursts::is_uneven(const std::string& planning_name) const {
  const auto found = bursts_.find(planning_name);
  return found != bursts_.end() && found->second.is_uneven;
}

bool CallBursts::is_between(const std::string& planning_name) const {
  const auto found = bursts_.find(planning_name);
  return found != bursts_.end() &&
         (found->second.calls == found->second.length || (found->second.is_uneven && found->second.calls == 1));
}

std::string CallBursts::place_name(const std::string& planning_name, std::uint32_t index) {
  return planning_name + "#" + std::to_string(index);
}

}  // namespace ronde::agreement
