// BucketProgress: the buckets that a member knows, which of them are in force in which epoch, and how far this rank is
// with the instance of each. In a break it counts those instances that are finished before the rank leaves the epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "agreement/flags.h"
#include "types/bucket.h"

namespace ronde::agreement {

/// How far a published instance is.
enum class Stage : std::uint8_t { none, reducing, reduced };

struct BucketState {
  Bucket agreed;
  std::vector<std::uint32_t> names;  ///< by place: indices in the request table
  std::uint32_t fill = 0;
  std::uint64_t instances = 0;  ///< completed here in this epoch
  std::uint64_t decided = 0;    ///< in a break: how many will be
  bool in_force = false;
  bool published = false;
  bool has_unnamed = false;
  Stage stage = Stage::none;
  std::uint64_t launched = 0;  ///< in an ordered group: how many the log has launched in this epoch

  /// True if it was the last free place: the instance is published.
  bool take_place() {
    published = ++fill == names.size();
    return published;
  }
  /// The instance is over; the next one begins.
  void end_instance() {
    ++instances;
    fill = 0;
    published = false;
    stage = Stage::none;
  }
};

class BucketProgress {
 public:
  std::size_t size() const { return buckets_.size(); }
  /// Stays where it is.
  BucketState& operator[](std::uint32_t id) { return buckets_[id]; }
  const BucketState& operator[](std::uint32_t id) const { return buckets_[id]; }
  /// Those in force, in the order in which they came into force.
  const std::vector<std::uint32_t>& in_force() const { return in_force_; }
  /// The last that began; 0 before the first.
  std::uint32_t epoch() const { return epoch_; }
  /// Of the instance that the next requests belong to, or that is under way.
  Flag next_flag(const BucketState& bucket) const { return make_flag(epoch_, bucket.instances + 1); }

  /// Null if its number is not new; numbers that are left out stay empty.
  BucketState* prepare(const Bucket& agreed);
  /// False if its number is not new.
  bool begin_epoch(std::uint32_t epoch);
  void put_in_force(const std::vector<std::uint32_t>& ids);

  /// False if the instance is not published, or its slice was begun before.
  bool begin_slice(BucketState& bucket) {
    if (!bucket.published || bucket.stage != Stage::none) [[unlikely]] {
      return false;
    }
    bucket.stage = Stage::reducing;
    ++slices_;
    return true;
  }
  /// False if it was not begun.
  bool end_slice(BucketState& bucket) {
    if (bucket.stage != Stage::reducing) [[unlikely]] {
      return false;
    }
    bucket.stage = Stage::reduced;
    --slices_;
    return true;
  }
  /// In an ordered group the log launches the instance. False if it is not published, or was launched before.
  static bool launch(BucketState& bucket) {
    const bool can_be = bucket.published && bucket.launched == bucket.instances;
    bucket.launched += can_be ? 1 : 0;
    return can_be;
  }
  /// A slice is begun and not ended.
  bool has_slices() const { return slices_ > 0; }

  /// A break is decided: so many instances of each bucket will be completed (by id, 0 beyond the end). False if that
  /// cannot be.
  bool decide(std::span<const std::uint64_t> published);
  /// The same in an ordered group: those that were launched.
  bool decide_launched();
  /// An instance that was decided is under way.
  bool is_decided(const BucketState& bucket) const { return bucket.instances < bucket.decided; }
  /// All that were decided are completed.
  bool is_drained() const { return undrained_ == 0; }
  /// An instance is over. True if it was the last of those that were decided.
  bool count_drained(const BucketState& bucket) { return bucket.instances == bucket.decided && --undrained_ == 0; }

  /// The most instances of any bucket in this epoch.
  std::uint64_t most_instances() const;
  /// Those in force that came to no instance in this epoch, ascending.
  std::vector<std::uint32_t> unused() const;
  /// None is in force any more, nothing is in a place.
  void end_epoch();

 private:
  std::deque<BucketState> buckets_;  ///< by id
  std::vector<std::uint32_t> in_force_;
  std::uint32_t epoch_ = 0;
  std::size_t slices_ = 0;     ///< buckets in stage reducing
  std::size_t undrained_ = 0;  ///< in a break: buckets with instances < decided
};

}  // namespace ronde::agreement
