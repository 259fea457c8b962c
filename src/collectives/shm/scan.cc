#include "collectives/shm/scan.h"

#include <algorithm>
#include <optional>

#include "collectives/budget.h"
#include "collectives/gather_list.h"
#include "collectives/slices.h"
#include "reduce/neutral.h"
#include "reduce/reduce.h"

namespace ronde::collectives {

namespace {

class Scan final : public Operation {
 public:
  Scan(HostChannel& channel, const Plan& plan, bool is_inclusive)
      : channel_(channel),
        dtype_(plan.dtype),
        reduce_op_(plan.reduce_op),
        below_(channel.rank()),
        inputs_(static_cast<std::size_t>(below_) + (is_inclusive ? 1 : 0)),
        list_(plan) {
    if (inputs_ > 0) {
      reducer_.emplace(reduce::Reduction{plan.dtype, plan.reduce_op, plan.prescale, plan.postscale}, inputs_);
    }
    if (list_.bytes() > 0) {
      const Chunks chunks(list_.bytes(), std::min(channel.slot_bytes(), kBudgetBytes / 2));
      chunk_bytes_ = chunks.bytes_each;
      count_ = chunks.count;
    }
    first_ = to_stage_ = to_collect_ = channel.begin(count_);
    last_ = first_ + count_ - 1;
  }

  Progress advance() override {
    Budget budget;
    while (to_collect_ <= last_ && budget.allows(2 * chunk_bytes_)) {
      const bool staged = stage(budget);
      const bool collected = collect(budget);
      if (!staged && !collected) {
        return budget.anything_spent() ? Progress::again : Progress::idle;
      }
    }
    return to_collect_ > last_ ? Progress::done : Progress::again;
  }

  std::vector<int> waiting_for() const override {
    if (to_collect_ > last_) {
      return {};
    }
    std::vector<int> ranks = channel_.not_published(to_collect_);
    std::erase_if(ranks, [this](int rank) { return rank >= below_; });
    return ranks.empty() && to_stage_ <= last_ ? channel_.holding_input(to_stage_) : ranks;
  }

 private:
  Range chunk(std::uint64_t tick) const {
    const std::size_t begin = static_cast<std::size_t>(tick - first_) * chunk_bytes_;
    return {std::min(begin, list_.bytes()), std::min(begin + chunk_bytes_, list_.bytes())};
  }

  bool stage(Budget& budget) {
    if (to_stage_ > last_) {
      return false;
    }
    if (below_ + 1 == channel_.size()) {
      channel_.publish(last_);
      to_stage_ = last_ + 1;
      budget.spend(0);
      return true;
    }
    if (!channel_.input_free(to_stage_)) {
      return false;
    }
    const Range range = chunk(to_stage_);
    list_.gather(range.begin, range.end, channel_.input(channel_.rank(), to_stage_));
    channel_.publish(to_stage_++);
    budget.spend(range.bytes());
    return true;
  }

  bool collect(Budget& budget) {
    if (to_collect_ == to_stage_) {
      return false;  // in place, what is written is staged before
    }
    for (int rank = 0; rank < below_; ++rank) {
      if (!channel_.has_published(rank, to_collect_)) {
        return false;
      }
    }
    const Range range = chunk(to_collect_);
    const auto inputs = channel_.pointers();
    const reduce::DefaultArithmetic arithmetic;
    list_.for_each(range.begin, range.end,
                   [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t at) {
                     if (!reducer_) {
                       reduce::fill_empty(dtype_, reduce_op_, {to, bytes});
                       return;
                     }
                     for (int rank = 0; rank < below_; ++rank) {
                       inputs[static_cast<std::size_t>(rank)] = channel_.input(rank, to_collect_) + (at - range.begin);
                     }
                     if (inputs_ > static_cast<std::size_t>(below_)) {
                       inputs[static_cast<std::size_t>(below_)] = from;
                     }
                     (*reducer_)(arithmetic, inputs.data(), reducer_->elements(bytes), to);
                   });
    if (to_collect_ == last_) {
      channel_.finish(last_);
    } else {
      channel_.set_reduced(to_collect_);
    }
    ++to_collect_;
    budget.spend(range.bytes());
    return true;
  }

  HostChannel& channel_;
  const DType dtype_;
  const ReduceOp reduce_op_;
  const int below_;           ///< so many ranks come before this one
  const std::size_t inputs_;  ///< of how many ranks the result is
  GatherList list_;
  std::optional<reduce::Reducer> reducer_;  ///< none: the result is of no rank
  std::size_t chunk_bytes_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t to_stage_ = 0;    ///< next tick of my own; to_collect_ <= to_stage_
  std::uint64_t to_collect_ = 0;  ///< next tick of the ranks below
};

}  // namespace

std::unique_ptr<Operation> staged_scan(HostChannel& channel, const Plan& plan) {
  return std::make_unique<Scan>(channel, plan, true);
}

std::unique_ptr<Operation> staged_exscan(HostChannel& channel, const Plan& plan) {
  return std::make_unique<Scan>(channel, plan, false);
}

}  // namespace ronde::collectives
