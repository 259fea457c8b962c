#include "collectives/shm/broadcast.h"

#include <algorithm>

#include "collectives/budget.h"
#include "collectives/gather_list.h"

namespace ronde::collectives {

namespace {

class Broadcast final : public Operation {
 public:
  Broadcast(HostChannel& channel, const Plan& plan)
      : channel_(channel),
        list_(plan),
        root_(plan.root),
        chunk_bytes_(std::min(channel.slot_bytes(), kBudgetBytes / 2)) {
    const std::size_t chunks = (list_.bytes() + chunk_bytes_ - 1) / chunk_bytes_;
    next_ = first_ = channel.begin(chunks);
    last_ = first_ + chunks - 1;
    if (root_ != channel_.rank() && chunks > 0) {
      channel_.publish(last_);
    }
  }

  Progress advance() override {
    if (next_ > last_) {
      return Progress::done;
    }
    Budget budget;
    while (next_ <= last_ && budget.allows(2 * chunk_bytes_)) {
      const bool ready = root_ == channel_.rank() ? channel_.input_free(next_) : channel_.has_published(root_, next_);
      if (!ready) {
        return budget.anything_spent() ? Progress::again : Progress::idle;
      }
      const std::size_t begin = static_cast<std::size_t>(next_ - first_) * chunk_bytes_;
      const std::size_t end = std::min(begin + chunk_bytes_, list_.bytes());
      if (root_ == channel_.rank()) {
        list_.gather(begin, end, channel_.input(root_, next_));
        channel_.publish(next_);
        list_.carry_over(begin, end);
      } else {
        list_.scatter(begin, end, channel_.input(root_, next_));
        channel_.set_reduced(next_);
      }
      budget.spend(end - begin);
      if (++next_ > last_) {
        channel_.finish(last_);
      }
    }
    return next_ > last_ ? Progress::done : Progress::again;
  }

  std::vector<int> waiting_for() const override {
    if (next_ > last_) {
      return {};
    }
    if (root_ == channel_.rank()) {
      return channel_.holding_input(next_);
    }
    const std::vector<int> late = channel_.not_published(next_);
    return std::find(late.begin(), late.end(), root_) == late.end() ? std::vector<int>{} : std::vector<int>{root_};
  }

 private:
  HostChannel& channel_;
  GatherList list_;
  const int root_;
  const std::size_t chunk_bytes_;
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace

std::unique_ptr<Operation> staged_broadcast(HostChannel& channel, const Plan& plan) {
  return std::make_unique<Broadcast>(channel, plan);
}

}  // namespace ronde::collectives
