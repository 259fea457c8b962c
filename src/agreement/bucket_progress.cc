#include "agreement/bucket_progress.h"

#include <algorithm>

namespace ronde::agreement {

BucketState* BucketProgress::prepare(const Bucket& agreed) {
  if (agreed.id < buckets_.size()) {
    return nullptr;
  }
  buckets_.resize(agreed.id + 1);
  BucketState& bucket = buckets_.back();
  bucket.agreed = agreed;
  bucket.has_unnamed = has_unnamed(agreed);
  return &bucket;
}

bool BucketProgress::begin_epoch(std::uint32_t epoch) {
  if (epoch <= epoch_) {
    return false;
  }
  epoch_ = epoch;
  return true;
}

void BucketProgress::put_in_force(const std::vector<std::uint32_t>& ids) {
  for (std::uint32_t id : ids) {
    BucketState& bucket = buckets_[id];
    bucket.in_force = true;
    bucket.instances = 0;
    bucket.decided = 0;
    bucket.launched = 0;
    in_force_.push_back(id);
  }
}

bool BucketProgress::decide(std::span<const std::uint64_t> published) {
  bool can_be = true;
  undrained_ = 0;
  for (std::uint32_t id : in_force_) {
    BucketState& bucket = buckets_[id];
    bucket.decided = id < published.size() ? published[id] : 0;
    const bool own = bucket.decided == bucket.instances + 1 && bucket.published;
    can_be &= bucket.decided == bucket.instances || own;
    undrained_ += static_cast<std::size_t>(bucket.decided > bucket.instances);
  }
  return can_be;
}

bool BucketProgress::decide_launched() {
  std::vector<std::uint64_t> launched(buckets_.size());
  for (std::uint32_t id : in_force_) {
    launched[id] = buckets_[id].launched;
  }
  return decide(launched);
}

std::uint64_t BucketProgress::most_instances() const {
  std::uint64_t most = 0;
  for (std::uint32_t id : in_force_) {
    most = std::max(most, buckets_[id].instances);
  }
  return most;
}

std::vector<std::uint32_t> BucketProgress::unused() const {
  std::vector<std::uint32_t> ids = in_force_;
  std::erase_if(ids, [this](std::uint32_t id) { return buckets_[id].instances > 0; });
  std::sort(ids.begin(), ids.end());
  return ids;
}

void BucketProgress::end_epoch() {
  for (std::uint32_t id : in_force_) {
    BucketState& bucket = buckets_[id];
    bucket.fill = 0;
    bucket.published = false;
    bucket.in_force = false;
  }
  in_force_.clear();
}

}  // namespace ronde::agreement
