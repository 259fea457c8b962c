// Private tensors through slots that are the bucket's own: small ones in one shot, larger ones in two phases, as
// one_shot.h and two_phase.h derive them for a single block. Which slots are reused when: bucket.h.
#include <algorithm>

#include "collectives/persistent/bucket_kinds.h"
#include "collectives/slices.h"

namespace ronde::collectives {

namespace {

class StagedBucket : public HostBucket {
 public:
  StagedBucket(transport::HostArena& arena, const Bucket& bucket)
      : HostBucket(arena, bucket),
        reducer_(reduction(), static_cast<std::size_t>(arena.size())),
        inputs_(static_cast<std::size_t>(arena.size())) {}

  std::uint64_t published_by(int rank) const override { return line(rank).published.instance(epoch()); }

 protected:
  /// Of the instance under way.
  std::byte* slot(int rank, SlotUse use) const {
    return arena().heap(rank) + layout().slots + slot_offset(payload(), use, instance() + 1);
  }
  /// Reduces [begin, end) of the list from memory and the peers' input slots to the outputs and, if it is
  /// not null, to `second` at the same positions.
  void reduce_range(const Range& range, std::byte* second) {
    const reduce::DefaultArithmetic arithmetic;
    list().for_each(
        range.begin, range.end, [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t at) {
          for (int each = 0; each < size(); ++each) {
            inputs_[static_cast<std::size_t>(each)] = each == rank() ? from : slot(each, SlotUse::input) + at;
          }
          reducer_(arithmetic, inputs_.data(), reducer_.elements(bytes), to, second == nullptr ? nullptr : second + at);
        });
  }

 private:
  const reduce::Reducer reducer_;
  std::vector<const void*> inputs_;
};

class OneShotBucket final : public StagedBucket {
 public:
  using StagedBucket::StagedBucket;

  void copy_in(std::size_t member) override {
    const Range range = positions(member);
    list().gather(range.begin, range.end, slot(rank(), SlotUse::input) + range.begin);
  }

  Progress advance() override {
    if (!all_published()) {
      return Progress::idle;
    }
    if (is_void()) {
      return complete_void();
    }
    reduce_range({0, list().bytes()}, nullptr);
    return complete();
  }

  std::vector<int> waiting_for() const override { return not_published(); }
};

class TwoPhaseBucket final : public StagedBucket {
 public:
  TwoPhaseBucket(transport::HostArena& arena, const Bucket& bucket)
      : StagedBucket(arena, bucket), mine_(slice_of({0, list().bytes()}, rank(), size())) {}

  void copy_in(std::size_t member) override {
    const Range range = positions(member);
    std::byte* const to = slot(rank(), SlotUse::input);
    gather({range.begin, std::min(range.end, mine_.begin)}, to);
    gather({std::max(range.begin, mine_.end), range.end}, to);
  }

  Progress advance() override {
    if (!is_reduced_) {
      if (!all_published()) {
        return Progress::idle;
      }
      if (is_void()) {
        return complete_void();
      }
      reduce_range(mine_, slot(rank(), SlotUse::result));
      is_reduced_ = true;
      set_done();
      start_looking();
    }
    if (!all_done()) {
      return Progress::idle;
    }
    for (int distance = 1; distance < size(); ++distance) {
      const int owner = after(distance);
      const Range theirs = slice_of({0, list().bytes()}, owner, size());
      list().scatter(theirs.begin, theirs.end, slot(owner, SlotUse::result) + theirs.begin);
    }
    return complete();
  }

  std::vector<int> waiting_for() const override { return is_reduced_ ? not_done() : not_published(); }

 private:
  void reset() override { is_reduced_ = false; }
  void gather(const Range& range, std::byte* slot) {
    if (range.begin < range.end) {
      list().gather(range.begin, range.end, slot + range.begin);
    }
  }

  const Range mine_;
  bool is_reduced_ = false;
};

}  // namespace

std::unique_ptr<HostBucket> make_one_shot_bucket(transport::HostArena& arena, const Bucket& bucket) {
  return std::make_unique<OneShotBucket>(arena, bucket);
}

std::unique_ptr<HostBucket> make_two_phase_bucket(transport::HostArena& arena, const Bucket& bucket) {
  return std::make_unique<TwoPhaseBucket>(arena, bucket);
}

}  // namespace ronde::collectives
