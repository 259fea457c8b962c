#include "collectives/shm/exchange.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "collectives/budget.h"
#include "collectives/gather_list.h"
#include "collectives/parts.h"
#include "collectives/slices.h"
#include "reduce/reduce.h"
#include "types/request.h"

namespace ronde::collectives {

namespace {

constexpr std::size_t kLongestElement = 16;

class Exchange final : public Operation {
 public:
  Exchange(HostChannel& channel, const Plan& plan)
      : channel_(channel),
        own_(static_cast<std::size_t>(channel.rank())),
        one_destination_(plan.kind == OpKind::gather || plan.kind == OpKind::reduce) {
    const auto ranks = static_cast<std::size_t>(channel.size());
    length_ = std::min(channel.slot_bytes(), kBudgetBytes / 2) / (one_destination_ ? 1 : ranks);
    length_ -= length_ % (length_ < transport::kLineBytes ? kLongestElement : transport::kLineBytes);
    const Parts parts(plan, channel.size());
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      outgoing_.push_back(parts.outgoing(own_, peer));
      incoming_.push_back(parts.incoming(own_, peer));
      longest_outgoing_ = std::max(longest_outgoing_, peer == own_ ? 0 : outgoing_.back().bytes());
    }
    if (!has_rows_for_pairs(plan.kind)) {
      reducer_.emplace(reduce::Reduction{plan.dtype, plan.reduce_op, plan.prescale, plan.postscale}, ranks);
    }
    const std::size_t chunks = (parts.longest() + length_ - 1) / length_;
    first_ = to_stage_ = to_collect_ = channel.begin(chunks);
    last_ = first_ + chunks - 1;
  }

  Progress advance() override {
    Budget budget;
    while (to_collect_ <= last_ && budget.allows(2 * length_ * outgoing_.size())) {
      const bool staged = stage(budget);
      const bool collected = to_collect_ != to_stage_ && (reducer_ ? reduce_chunk(budget) : copy_chunk(budget));
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
    // Who has yet to publish comes first: a rank may hold my slot only because it waits for that one too.
    std::vector<int> ranks = channel_.not_published(to_collect_);
    return ranks.empty() && to_stage_ <= last_ ? channel_.holding_input(to_stage_) : ranks;
  }

 private:
  Range chunk(const GatherList& part, std::uint64_t tick) const {
    const std::size_t begin = static_cast<std::size_t>(tick - first_) * length_;
    return {std::min(begin, part.bytes()), std::min(begin + length_, part.bytes())};
  }
  /// Where in a slot the chunk for this rank lies.
  std::size_t place_of(std::size_t destination) const { return one_destination_ ? 0 : destination * length_; }
  /// Where this rank's chunk lies in the peer's slot.
  const std::byte* from_peer(int peer, std::uint64_t tick) const { return channel_.input(peer, tick) + place_of(own_); }

  bool stage(Budget& budget) {
    if (to_stage_ > last_) {
      return false;
    }
    const bool is_over = static_cast<std::size_t>(to_stage_ - first_) * length_ >= longest_outgoing_;
    if (is_over && (reducer_ || chunk(outgoing_[own_], to_stage_).bytes() == 0)) {
      channel_.publish(last_);
      to_stage_ = last_ + 1;
      budget.spend(0);
      return true;
    }
    if (!channel_.input_free(to_stage_)) {
      return false;
    }
    for (std::size_t peer = 0; peer < outgoing_.size(); ++peer) {
      const Range range = chunk(outgoing_[peer], to_stage_);
      if (peer != own_) {
        outgoing_[peer].gather(range.begin, range.end, channel_.input(channel_.rank(), to_stage_) + place_of(peer));
      } else if (!reducer_) {
        outgoing_[peer].carry_over(range.begin, range.end);
      }
      budget.spend(range.bytes());
    }
    channel_.publish(to_stage_++);
    return true;
  }

  /// One peer's chunk of the tick; the tick is done with the last peer.
  bool copy_chunk(Budget& budget) {
    const int peer = channel_.after(distance_);
    if (!channel_.has_published(peer, to_collect_)) {
      return false;
    }
    const GatherList& part = incoming_[static_cast<std::size_t>(peer)];
    const Range range = chunk(part, to_collect_);
    part.scatter(range.begin, range.end, from_peer(peer, to_collect_));
    budget.spend(range.bytes());
    if (++distance_ == channel_.size()) {
      distance_ = 1;
      collected();
    }
    return true;
  }

  bool reduce_chunk(Budget& budget) {
    if (!channel_.all_published(to_collect_)) {
      return false;
    }
    const Range range = chunk(outgoing_[own_], to_collect_);
    const auto inputs = channel_.pointers();
    const reduce::DefaultArithmetic arithmetic;
    outgoing_[own_].for_each(range.begin, range.end,
                             [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t at) {
                               for (int rank = 0; rank < channel_.size(); ++rank) {
                                 inputs[static_cast<std::size_t>(rank)] =
                                     rank == channel_.rank() ? from : from_peer(rank, to_collect_) + (at - range.begin);
                               }
                               (*reducer_)(arithmetic, inputs.data(), reducer_->elements(bytes), to);
                             });
    budget.spend(range.bytes());
    collected();
    return true;
  }

  void collected() {
    if (to_collect_ == last_) {
      channel_.finish(last_);
    } else {
      channel_.set_reduced(to_collect_);
    }
    ++to_collect_;
  }

  HostChannel& channel_;
  const std::size_t own_;
  const bool one_destination_;  ///< the root
  std::size_t length_ = 0;      ///< of a chunk
  std::vector<GatherList> outgoing_;
  std::vector<GatherList> incoming_;
  std::size_t longest_outgoing_ = 0;
  std::optional<reduce::Reducer> reducer_;  ///< of a reduce or reduce-scatter
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t to_stage_ = 0;    ///< next tick of my own; to_collect_ <= to_stage_
  std::uint64_t to_collect_ = 0;  ///< next tick of the others
  int distance_ = 1;              ///< all-to-all: to the peer whose chunk of to_collect_ is next
};

}  // namespace

std::unique_ptr<Operation> staged_reducescatter(HostChannel& channel, const Plan& plan) {
  return std::make_unique<Exchange>(channel, plan);
}

std::unique_ptr<Operation> staged_alltoall(HostChannel& channel, const Plan& plan) {
  return std::make_unique<Exchange>(channel, plan);
}

std::unique_ptr<Operation> staged_gather(HostChannel& channel, const Plan& plan) {
  return std::make_unique<Exchange>(channel, plan);
}

std::unique_ptr<Operation> staged_scatter(HostChannel& channel, const Plan& plan) {
  return std::make_unique<Exchange>(channel, plan);
}

std::unique_ptr<Operation> staged_reduce(HostChannel& channel, const Plan& plan) {
  return std::make_unique<Exchange>(channel, plan);
}

}  // namespace ronde::collectives
