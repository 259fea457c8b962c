#include "agreement/bucket_acknowledgements.h"

#include <algorithm>

namespace ronde::agreement {

void BucketAcknowledgements::expect(std::uint32_t bucket) {
  preparing_[bucket];
  freed_[bucket];
}

BucketAcknowledgements::Outcome BucketAcknowledgements::on_prepared(int member, std::uint32_t bucket, bool refused) {
  const auto found = preparing_.find(bucket);
  if (found == preparing_.end() || !found->second.answered.insert(member).second) {
    return Outcome::invalid;
  }
  found->second.refused |= refused;
  if (found->second.answered.size() < members_) {
    return Outcome::pending;
  }
  const bool one_has_refused = found->second.refused;
  preparing_.erase(found);
  return one_has_refused ? Outcome::refused : Outcome::all;
}

BucketAcknowledgements::Outcome BucketAcknowledgements::on_free(int member, std::uint32_t bucket) {
  const auto found = freed_.find(bucket);
  if (found == freed_.end()) {
    return Outcome::invalid;
  }
  std::vector<bool>& freed = found->second;
  freed.resize(members_);
  if (freed[static_cast<std::size_t>(member)]) {
    return Outcome::invalid;
  }
  freed[static_cast<std::size_t>(member)] = true;
  if (std::find(freed.begin(), freed.end(), false) != freed.end()) {
    return Outcome::pending;
  }
  freed_.erase(found);
  return Outcome::all;
}

}  // namespace ronde::agreement
