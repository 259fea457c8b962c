// A layout of buckets for tests: numbered rooms, of which each holds one bucket. Kinds go by place and bytes, as on a
// host.
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
  BucketKind kind_of(const Bucket& bucket, const ByteLimits& limits) const override {
    if (!bucket.members.front().places.empty()) {
      return BucketKind::direct;
    }
    const std::uint64_t bytes = payload_bytes(bucket);
    return bytes <= limits.inline_max ? BucketKind::inlined
                                      : (bytes <= limits.staged_max ? BucketKind::staged : BucketKind::ordered);
  }
  /// The first room that is free.
  std::optional<std::string> place(const Bucket&) override {
    for (std::size_t room = 0; room < taken_.size(); ++room) {
      if (!taken_[room]) {
        taken_[room] = true;
        return std::to_string(room);
      }
    }
    return std::nullopt;
  }
  void take_back(const Bucket& bucket) override {
    const std::size_t room = std::stoul(bucket.layout);
    misused_ |= !taken_.at(room);
    taken_[room] = false;
  }

  bool is_taken(std::size_t room) const { return taken_[room]; }
  /// A room was taken back that was free.
  bool was_misused() const { return misused_; }

 private:
  std::vector<bool> taken_;
  bool misused_ = false;
};

}  // namespace ronde::agreement
