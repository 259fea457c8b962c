#include "collectives/shm/one_shot.h"

#include <algorithm>

#include "collectives/budget.h"
#include "collectives/gather_list.h"
#include "collectives/slices.h"
#include "collectives/stream_copy.h"
#include "reduce/reduce.h"

namespace ronde::collectives {

namespace {

class OneShot final : public Operation {
 public:
  OneShot(HostChannel& channel, const Plan& plan, const Thresholds& thresholds)
      : channel_(channel),
        reducer_({plan.dtype, plan.reduce_op, plan.prescale, plan.postscale}, static_cast<std::size_t>(channel.size())),
        list_(plan),
        is_streaming_(list_.bytes() >= thresholds.stream && !list_.any_in_place()) {
    const std::size_t most =
        std::min({channel.slot_bytes(), kBudgetBytes / 2, static_cast<std::size_t>(thresholds.chunk)});
    const Chunks chunks(list_.bytes(), most);
    chunk_bytes_ = chunks.bytes_each;
    to_reduce_ = to_publish_ = first_ = channel.begin(chunks.count);
    last_ = first_ + chunks.count - 1;
  }

  Progress advance() override {
    Budget budget;
    while (to_reduce_ <= last_ && budget.allows(2 * chunk_bytes_)) {
      const bool moved_in = copy_in(budget);
      const bool moved_out = reduce_chunk(budget);
      if (!moved_in && !moved_out) {
        return budget.anything_spent() ? Progress::again : Progress::idle;
      }
    }
    return to_reduce_ > last_ ? Progress::done : Progress::again;
  }

  std::vector<int> waiting_for() const override {
    if (to_reduce_ > last_) {
      return {};
    }
    return to_reduce_ < to_publish_ ? channel_.not_published(to_reduce_) : channel_.holding_input(to_publish_);
  }

 private:
  Range chunk(std::uint64_t tick) const {
    const std::size_t begin = static_cast<std::size_t>(tick - first_) * chunk_bytes_;
    return {std::min(begin, list_.bytes()), std::min(begin + chunk_bytes_, list_.bytes())};
  }

  bool copy_in(Budget& budget) {
    if (to_publish_ > last_ || !channel_.input_free(to_publish_)) {
      return false;
    }
    const Range whole = chunk(to_publish_);
    list_.gather(whole.begin, whole.end, channel_.input(channel_.rank(), to_publish_));
    channel_.publish_for_all(to_publish_++);
    budget.spend(whole.bytes());
    return true;
  }

  bool reduce_chunk(Budget& budget) {
    if (to_reduce_ == to_publish_ || !channel_.all_published(to_reduce_)) {
      return false;
    }
    const Range whole = chunk(to_reduce_);
    const auto inputs = channel_.pointers();
    const reduce::DefaultArithmetic arithmetic;
    list_.for_each(whole.begin, whole.end,
                   [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t at) {
                     for (int rank = 0; rank < channel_.size(); ++rank) {
                       inputs[static_cast<std::size_t>(rank)] =
                           rank == channel_.rank() ? from : channel_.input(rank, to_reduce_) + (at - whole.begin);
                     }
                     reduce_to(arithmetic, to, inputs, bytes);
                   });
    // The flags of an operation of one tick follow from `published` (channel.h).
    if (last_ > first_) {
      if (to_reduce_ < last_) {
        channel_.set_reduced(to_reduce_);
      } else {
        channel_.finish(last_);
      }
    }
    ++to_reduce_;
    budget.spend(whole.bytes());
    return true;
  }

  void reduce_to(const reduce::DefaultArithmetic& arithmetic, std::byte* to, std::span<const void*> inputs,
                 std::size_t bytes) {
    if (!is_streaming_) {
      reducer_(arithmetic, inputs.data(), reducer_.elements(bytes), to);
      return;
    }
    // The kernel has no streaming stores: block by block through memory that stays in the nearest cache.
    alignas(64) std::byte block[kBlockBytes];
    for (std::size_t at = 0; at < bytes; at += kBlockBytes) {
      const std::size_t part = std::min(kBlockBytes, bytes - at);
      reducer_(arithmetic, inputs.data(), reducer_.elements(part), block);
      stream_copy(to + at, block, part);
      for (const void*& input : inputs) {
        input = static_cast<const std::byte*>(input) + part;
      }
    }
    streams_done();
  }

  static constexpr std::size_t kBlockBytes = 4096;

  HostChannel& channel_;
  const reduce::Reducer reducer_;
  GatherList list_;
  const bool is_streaming_;
  std::size_t chunk_bytes_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t to_publish_ = 0;  ///< the next tick to copy in; to_reduce_ <= to_publish_
  std::uint64_t to_reduce_ = 0;
};

}  // namespace

std::unique_ptr<Operation> one_shot_allreduce(HostChannel& channel, const Plan& plan, const Thresholds& thresholds) {
  return std::make_unique<OneShot>(channel, plan, thresholds);
}

}  // namespace ronde::collectives
