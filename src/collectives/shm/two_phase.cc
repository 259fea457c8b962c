#include "collectives/shm/two_phase.h"

#include <algorithm>

#include "collectives/budget.h"
#include "collectives/gather_list.h"
#include "collectives/slices.h"
#include "collectives/stream_copy.h"
#include "reduce/reduce.h"

namespace ronde::collectives {

namespace {

class TwoPhase final : public Operation {
 public:
  TwoPhase(HostChannel& channel, const Plan& plan, const Thresholds& thresholds)
      : channel_(channel),
        reducer_({plan.dtype, plan.reduce_op, plan.prescale, plan.postscale}, static_cast<std::size_t>(channel.size())),
        list_(plan),
        is_streaming_(list_.bytes() >= thresholds.stream && !list_.any_in_place()) {
    // Multiples of a line, hence of an element; and a slice is at most slot_bytes / p rounded up to a line, which is
    // what a result slot holds.
    const std::size_t most =
        std::min({channel.slot_bytes(), kBudgetBytes / 2, static_cast<std::size_t>(thresholds.chunk)});
    const Chunks chunks(list_.bytes(), most);
    chunk_bytes_ = chunks.bytes_each;
    first_ = channel.begin(chunks.count);
    last_ = first_ + chunks.count - 1;
    to_publish_ = to_reduce_ = to_copy_ = first_;
  }

  Progress advance() override {
    Budget budget;
    while (to_copy_ <= last_ && budget.allows(2 * chunk_bytes_)) {
      const bool moved_in = copy_in(budget);
      const bool moved_over = reduce_slice(budget);
      const bool moved_out = copy_out(budget);
      if (!moved_in && !moved_over && !moved_out) {
        return budget.anything_spent() ? Progress::again : Progress::idle;
      }
    }
    return to_copy_ > last_ ? Progress::done : Progress::again;
  }

  std::vector<int> waiting_for() const override {
    if (to_copy_ > last_) {
      return {};
    }
    if (to_copy_ < to_reduce_) {
      return channel_.not_reduced(to_copy_);
    }
    if (to_reduce_ < to_publish_) {
      std::vector<int> ranks = channel_.not_published(to_reduce_);
      return ranks.empty() ? channel_.holding_result(to_reduce_) : ranks;
    }
    return channel_.holding_input(to_publish_);
  }

 private:
  Range chunk(std::uint64_t tick) const {
    const std::size_t begin = static_cast<std::size_t>(tick - first_) * chunk_bytes_;
    return {std::min(begin, list_.bytes()), std::min(begin + chunk_bytes_, list_.bytes())};
  }

  /// The part of a chunk that a rank owns.
  Range slice(const Range& chunk, int rank) const { return slice_of(chunk, rank, channel_.size()); }

  bool copy_in(Budget& budget) {
    if (to_publish_ > last_ || !channel_.input_free(to_publish_)) {
      return false;
    }
    const Range whole = chunk(to_publish_);
    const Range mine = slice(whole, channel_.rank());
    std::byte* slot = channel_.input(channel_.rank(), to_publish_);
    list_.gather(whole.begin, mine.begin, slot);
    list_.gather(mine.end, whole.end, slot + (mine.end - whole.begin));
    channel_.publish_for_all(to_publish_++);
    budget.spend(whole.bytes() - mine.bytes());
    return true;
  }

  bool reduce_slice(Budget& budget) {
    if (to_reduce_ == to_publish_ || !channel_.all_published(to_reduce_) || !channel_.result_free(to_reduce_) ||
        to_reduce_ - to_copy_ == channel_.slots()) {
      return false;
    }
    const Range whole = chunk(to_reduce_);
    const Range mine = slice(whole, channel_.rank());
    std::byte* result = channel_.result(channel_.rank(), to_reduce_);
    const auto inputs = channel_.pointers();
    const reduce::DefaultArithmetic arithmetic;
    list_.for_each(mine.begin, mine.end, [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t at) {
      for (int rank = 0; rank < channel_.size(); ++rank) {
        inputs[static_cast<std::size_t>(rank)] =
            rank == channel_.rank() ? from : channel_.input(rank, to_reduce_) + (at - whole.begin);
      }
      std::byte* const slot = result + (at - mine.begin);
      reducer_(arithmetic, inputs.data(), reducer_.elements(bytes), is_streaming_ ? slot : to,
               is_streaming_ ? nullptr : slot);
    });
    channel_.set_reduced(to_reduce_++);
    budget.spend(2 * mine.bytes());
    return true;
  }

  bool copy_out(Budget& budget) {
    if (to_copy_ == to_reduce_ || !channel_.all_reduced(to_copy_)) {
      return false;
    }
    const Range whole = chunk(to_copy_);
    for (int distance = is_streaming_ ? 0 : 1; distance < channel_.size(); ++distance) {
      const int owner = channel_.after(distance);
      const Range theirs = slice(whole, owner);
      if (is_streaming_) {
        list_.scatter_streaming(theirs.begin, theirs.end, channel_.result(owner, to_copy_));
      } else {
        list_.scatter(theirs.begin, theirs.end, channel_.result(owner, to_copy_));
      }
      budget.spend(theirs.bytes());
    }
    if (is_streaming_) {
      streams_done();
    }
    channel_.set_copied(to_copy_++);
    return true;
  }

  HostChannel& channel_;
  const reduce::Reducer reducer_;
  GatherList list_;
  const bool is_streaming_;
  std::size_t chunk_bytes_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t to_publish_ = 0;  ///< the next tick to copy in; to_copy_ <= to_reduce_ <= to_publish_
  std::uint64_t to_reduce_ = 0;
  std::uint64_t to_copy_ = 0;
};

}  // namespace

std::unique_ptr<Operation> two_phase_allreduce(HostChannel& channel, const Plan& plan, const Thresholds& thresholds) {
  return std::make_unique<TwoPhase>(channel, plan, thresholds);
}

}  // namespace ronde::collectives
