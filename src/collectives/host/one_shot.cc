#include "collectives/host/one_shot.h"

#include "collectives/host/gather_list.h"
#include "reduce/reduce.h"

namespace ronde::collectives {

namespace {

class OneShot final : public Operation {
 public:
  OneShot(HostChannel& channel, const Plan& plan)
      : channel_(channel),
        reducer_({plan.dtype, plan.reduce_op, plan.prescale, plan.postscale}, static_cast<std::size_t>(channel.size())),
        list_(plan),
        tick_(channel.begin(1)) {}

  Progress advance() override {
    bool moved = false;
    if (!published_) {
      if (!channel_.input_free(tick_)) {
        return Progress::idle;
      }
      list_.gather(0, list_.bytes(), channel_.input(channel_.rank(), tick_));
      channel_.publish(tick_);
      published_ = moved = true;
    }
    if (!done_) {
      if (!channel_.all_published(tick_)) {
        return moved ? Progress::again : Progress::idle;
      }
      reduce_all();
      done_ = true;
    }
    return Progress::done;
  }

  std::vector<int> waiting_for() const override {
    if (done_) {
      return {};
    }
    return published_ ? channel_.not_published(tick_) : channel_.holding_input(tick_);
  }

 private:
  void reduce_all() {
    const auto inputs = channel_.pointers();
    list_.for_each(0, list_.bytes(), [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t at) {
      for (int rank = 0; rank < channel_.size(); ++rank) {
        inputs[static_cast<std::size_t>(rank)] = rank == channel_.rank() ? from : channel_.input(rank, tick_) + at;
      }
      reducer_(inputs.data(), bytes / reducer_.element_bytes(), to);
    });
  }

  HostChannel& channel_;
  const reduce::Reducer reducer_;
  GatherList list_;
  const std::uint64_t tick_;
  bool published_ = false;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Operation> one_shot_allreduce(HostChannel& channel, const Plan& plan) {
  return std::make_unique<OneShot>(channel, plan);
}

}  // namespace ronde::collectives
