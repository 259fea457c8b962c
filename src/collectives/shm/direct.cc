#include "collectives/shm/direct.h"

#include "collectives/budget.h"
#include "collectives/shm/shared_slice.h"

namespace ronde::collectives {

namespace {

std::vector<SharedTensor> shared_tensors(const Plan& plan) {
  std::vector<SharedTensor> tensors;
  for (const PlanMember& member : plan.members) {
    tensors.push_back({member.places, member.input.bytes()});
  }
  return tensors;
}

class Direct final : public Operation {
 public:
  Direct(HostChannel& channel, const Plan& plan)
      : channel_(channel),
        slice_(channel.arena(), {plan.dtype, plan.reduce_op, plan.prescale, plan.postscale}, shared_tensors(plan)),
        tick_(channel.begin(1)) {
    channel_.publish_for_all(tick_);
  }

  Progress advance() override {
    if (!is_reduced_) {
      if (!channel_.all_published(tick_)) {
        return Progress::idle;
      }
      Budget budget;
      if (!slice_.advance(budget)) {
        return Progress::again;
      }
      channel_.finish(tick_);
      is_reduced_ = true;
    }
    return channel_.all_reduced(tick_) ? Progress::done : Progress::idle;
  }

  std::vector<int> waiting_for() const override {
    return is_reduced_ ? channel_.not_reduced(tick_) : channel_.not_published(tick_);
  }

 private:
  HostChannel& channel_;
  SharedSlice slice_;
  const std::uint64_t tick_;
  bool is_reduced_ = false;
};

}  // namespace

std::unique_ptr<Operation> direct_allreduce(HostChannel& channel, const Plan& plan) {
  return std::make_unique<Direct>(channel, plan);
}

}  // namespace ronde::collectives
