#include "collectives/host/exchange.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "collectives/host/allgather.h"
#include "collectives/host/budget.h"
#include "collectives/host/gather_list.h"
#include "collectives/host/slices.h"
#include "reduce/reduce.h"
#include "types/request.h"

namespace ronde::collectives {

namespace {

constexpr std::size_t kLongestElement = 16;

/// Which rows go from whom to whom, and where they lie.
class Parts {
 public:
  Parts(const Plan& plan, int ranks)
      : plan_(plan), ranks_(static_cast<std::size_t>(ranks)), hands_over_(has_rows_for_pairs(plan.kind)) {}

  /// Of part(from, to) of member m.
  std::size_t rows(std::size_t m, std::size_t from, std::size_t to) const {
    if (plan_.kind == OpKind::reduce) {
      return to == static_cast<std::size_t>(plan_.root) ? static_cast<std::size_t>(plan_.members[m].input.elements())
                                                        : 0;
    }
    return static_cast<std::size_t>(hands_over_ ? plan_.rows[m][from * ranks_ + to] : plan_.rows[m][to]);
  }
  /// What counts as a row: of a reduce, which may have no dimension, an element.
  std::size_t row_bytes(const PlanMember& member) const {
    return plan_.kind == OpKind::reduce ? dtype_bytes(plan_.dtype) : collectives::row_bytes(member);
  }
  /// Of the longest part of all.
  std::size_t longest() const {
    std::size_t longest = 0;
    for (std::size_t from = 0; from < ranks_; ++from) {
      for (std::size_t to = 0; to < ranks_; ++to) {
        std::size_t bytes = 0;
        for (std::size_t m = 0; m < plan_.members.size(); ++m) {
          bytes += rows(m, from, to) * row_bytes(plan_.members[m]);
        }
        longest = std::max(longest, bytes);
      }
    }
    return longest;
  }
  /// part(own, peer) where it is read; of part(own, own) also where it is written.
  GatherList outgoing(std::size_t own, std::size_t peer) const {
    GatherList list;
    for (std::size_t m = 0; m < plan_.members.size(); ++m) {
      const PlanMember& member = plan_.members[m];
      const std::size_t row = row_bytes(member);
      std::size_t before = 0;
      for (std::size_t to = 0; to < peer; ++to) {
        before += rows(m, own, to);
      }
      list.append(static_cast<const std::byte*>(member.input.data) + before * row, written_at(m, own, own),
                  rows(m, own, peer) * row);
    }
    return list;
  }
  /// part(peer, own) where it is written; it is read from slots.
  GatherList incoming(std::size_t own, std::size_t peer) const {
    GatherList list;
    for (std::size_t m = 0; m < plan_.members.size(); ++m) {
      std::byte* const to = written_at(m, own, peer);
      list.append(to, to, rows(m, peer, own) * row_bytes(plan_.members[m]));
    }
    return list;
  }

 private:
  std::byte* written_at(std::size_t m, std::size_t own, std::size_t peer) const {
    const PlanMember& member = plan_.members[m];
    std::size_t before = 0;
    for (std::size_t from = 0; hands_over_ && from < peer; ++from) {
      before += rows(m, from, own);
    }
    return static_cast<std::byte*>(member.output.data) + before * row_bytes(member);
  }

  const Plan& plan_;
  const std::size_t ranks_;
  const bool hands_over_;  ///< what comes from different ranks lies side by side, and is not reduced to one
};

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
