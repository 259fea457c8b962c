#include "engine/groups/group_ids.h"

#include <algorithm>

namespace ronde::engine {

void GroupIds::begin_job() {
  std::lock_guard lock(mutex_);
  taken_.clear();
}

GroupIds::Proposal GroupIds::propose(const std::vector<int>& ranks) const {
  std::lock_guard lock(mutex_);
  const auto found = last_.find(ranks);
  return {found == last_.end() || taken_.contains(found->second) ? 0 : found->second, free_};
}

std::int32_t GroupIds::agreed(std::span<const Proposal> proposals) {
  const std::int64_t known = proposals.front().known;
  const bool all_know_it = known > 0 && std::all_of(proposals.begin(), proposals.end(),
                                                    [known](const Proposal& each) { return each.known == known; });
  std::int64_t free = 1;
  for (const Proposal& each : proposals) {
    free = std::max(free, each.free);
  }
  return static_cast<std::int32_t>(all_know_it ? known : free);
}

void GroupIds::take(std::int32_t id, const std::vector<int>& ranks) {
  std::lock_guard lock(mutex_);
  last_[ranks] = id;
  taken_.insert(id);
  free_ = std::max(free_, id + 1);
}

std::int32_t GroupIds::take_own() {
  std::lock_guard lock(mutex_);
  return next_own_++;
}

}  // namespace ronde::engine
