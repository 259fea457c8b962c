// A layout of buckets for tests: numbered rooms, of which each holds one bucket.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "types/bucket_layout.h"

namespace ronde::agreement {

class RoomsForTests final : public BucketLayout {
 public:
  explicit RoomsForTests(std::size_t count = 1000) : taken_(count) {}

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
