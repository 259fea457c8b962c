#include "collectives/schedule/rank_layout.h"

#include <algorithm>
#include <numeric>

namespace ronde::collectives {

RankLayout::RankLayout(const std::vector<int>& first_of) : host_of_(first_of.size()), local_(first_of.size()) {
  for (std::size_t rank = 0; rank < first_of.size(); ++rank) {
    const auto first = static_cast<std::size_t>(first_of[rank]);
    if (first == rank) {
      ranks_.emplace_back();
    }
    host_of_[rank] = first == rank ? hosts() - 1 : host_of_[first];
    is_in_order_ &= host_of_[rank] == hosts() - 1;
    std::vector<int>& ranks = ranks_[static_cast<std::size_t>(host_of_[rank])];
    local_[rank] = static_cast<int>(ranks.size());
    ranks.push_back(static_cast<int>(rank));
  }
  for (const std::vector<int>& ranks : ranks_) {
    most_ = std::max(most_, ranks.size());
    fewest_ = fewest_ == 0 ? ranks.size() : std::min(fewest_, ranks.size());
  }
}

RankLayout RankLayout::apart(int ranks) {
  std::vector<int> first_of(static_cast<std::size_t>(ranks));
  std::iota(first_of.begin(), first_of.end(), 0);
  return RankLayout(first_of);
}

}  // namespace ronde::collectives
