#include "collectives/shm/allgather.h"

#include <algorithm>

#include "collectives/budget.h"
#include "collectives/gather_list.h"
#include "collectives/parts.h"

namespace ronde::collectives {

namespace {

class Allgather final : public Operation {
 public:
  Allgather(HostChannel& channel, const Plan& plan)
      : channel_(channel), chunk_bytes_(std::min(channel.slot_bytes(), kBudgetBytes / 2)) {
    const Parts parts(plan, channel.size());
    std::size_t longest = 0;
    for (int rank = 0; rank < channel.size(); ++rank) {
      const auto own = static_cast<std::size_t>(channel.rank());
      const auto index = static_cast<std::size_t>(rank);
      streams_.push_back(index == own ? parts.outgoing(own, own) : parts.incoming(own, index));
      longest = std::max(longest, streams_.back().bytes());
    }
    const std::size_t chunks = (longest + chunk_bytes_ - 1) / chunk_bytes_;
    first_ = to_stage_ = to_collect_ = channel.begin(chunks);
    last_ = first_ + chunks - 1;
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
    // Who has yet to publish comes first: a rank may hold my slot only because it waits for that one too.
    std::vector<int> ranks = channel_.not_published(to_collect_);
    return ranks.empty() && to_stage_ <= last_ ? channel_.holding_input(to_stage_) : ranks;
  }

 private:
  const GatherList& stream(int rank) const { return streams_[static_cast<std::size_t>(rank)]; }
  /// Where chunk `tick` of a stream begins; the stream's end if it has none.
  std::size_t begin_of(const GatherList& stream, std::uint64_t tick) const {
    return std::min(static_cast<std::size_t>(tick - first_) * chunk_bytes_, stream.bytes());
  }

  bool stage(Budget& budget) {
    if (to_stage_ > last_) {
      return false;
    }
    const GatherList& mine = stream(channel_.rank());
    const std::size_t begin = begin_of(mine, to_stage_);
    const std::size_t end = begin_of(mine, to_stage_ + 1);
    if (begin == end) {
      channel_.publish(last_);
      to_stage_ = last_ + 1;
      budget.spend(0);
      return true;
    }
    if (!channel_.input_free(to_stage_)) {
      return false;
    }
    mine.gather(begin, end, channel_.input(channel_.rank(), to_stage_));
    channel_.publish(to_stage_++);
    mine.carry_over(begin, end);
    budget.spend(end - begin);
    return true;
  }

  /// One peer's chunk of the tick; the tick is done with the last peer.
  bool collect(Budget& budget) {
    const int peer = channel_.after(distance_);
    if (to_collect_ == to_stage_ || !channel_.has_published(peer, to_collect_)) {
      return false;
    }
    const GatherList& theirs = stream(peer);
    const std::size_t begin = begin_of(theirs, to_collect_);
    const std::size_t end = begin_of(theirs, to_collect_ + 1);
    theirs.scatter(begin, end, channel_.input(peer, to_collect_));
    budget.spend(end - begin);
    if (++distance_ == channel_.size()) {
      distance_ = 1;
      if (to_collect_ == last_) {
        channel_.finish(last_);
      } else {
        channel_.set_reduced(to_collect_);
      }
      ++to_collect_;
    }
    return true;
  }

  HostChannel& channel_;
  const std::size_t chunk_bytes_;
  std::vector<GatherList> streams_;
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t to_stage_ = 0;    ///< next tick of my own; to_collect_ <= to_stage_
  std::uint64_t to_collect_ = 0;  ///< next tick of the others
  int distance_ = 1;              ///< to the peer whose chunk of to_collect_ is next
};

}  // namespace

std::unique_ptr<Operation> staged_allgather(HostChannel& channel, const Plan& plan) {
  return std::make_unique<Allgather>(channel, plan);
}

}  // namespace ronde::collectives
