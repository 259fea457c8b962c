// A layout of buckets for tests: numbered rooms, of which each holds one bucket. Small private buckets have no done
// words, as on a host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "types/bucket_layout.h"

namespace ronde::agreement {

class RoomsForTests final : public BucketLayout {
 public:
  explicit RoomsForTests(std::size_t count = 1000) : taken_(count) {}

  int fusion_class(const MemoryPlaces& places) const override { return places.empty() ? 0 : 1; }
  /// The first room that is free.
  std::optional<Placed> place(const Bucket& bucket, const ByteLimits& limits) override {
    limits_ = limits;
    const bool is_shared = !bucket.members.front().places.empty();
    for (std::size_t room = 0; room < taken_.size(); ++room) {
      if (!taken_[room]) {
        taken_[room] = true;
        return Placed{std::to_string(room), is_shared || payload_bytes(bucket) > limits.inline_max};
      }
    }
    return std::nullopt;
  }
  void take_back(const Bucket& bucket) override {
    const std::size_t room = std::stoul(bucket.layout);
    misused_ |= !taken_.at(room);
    taken_[room] = false;
  }

  /// By which the last bucket was placed.
  const ByteLimits& limits() const { return limits_; }
  bool is_taken(std::size_t room) const { return taken_[room]; }
  /// A room was taken back that was free.
  bool was_misused() const { return misused_; }

 private:
  std::vector<bool> taken_;
  bool misused_ = false;
  ByteLimits limits_;
};

}  // namespace ronde::agreement
