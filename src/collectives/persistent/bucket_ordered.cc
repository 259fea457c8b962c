// Large private tensors: when the bucket's turn comes in the lane (ordered_lane.h), the all-reduce of the negotiation
// lane, over the lane's channel.
#include "collectives/persistent/bucket_kinds.h"
#include "collectives/persistent/ordered_lane.h"
#include "collectives/shm/select.h"
#include "collectives/single_rank.h"

namespace ronde::collectives {

namespace {

class OrderedBucket final : public HostBucket {
 public:
  OrderedBucket(transport::HostArena& arena, const Bucket& bucket, OrderedLane& lane)
      : HostBucket(arena, bucket), lane_(lane) {
    lane_.join();
    plan_.dtype = reduction().dtype;
    plan_.reduce_op = reduction().op;
    plan_.prescale = reduction().prescale;
    plan_.postscale = reduction().postscale;
    for (const BucketMember& member : bucket.members) {
      first_tensor_.push_back(plan_.members.size());
      for (const Descriptor::Spec& spec : member.descriptor.tensors) {
        const Tensor tensor{nullptr, spec.dtype, spec.shape, {}};
        plan_.members.push_back({member.name, tensor, tensor});
      }
    }
  }

  ~OrderedBucket() override { lane_.leave(); }

  void bind(std::size_t member, std::span<const RequestTensor> tensors) override {
    std::size_t at = first_tensor_[member];
    for (const RequestTensor& tensor : tensors) {
      plan_.members[at].input.data = tensor.input.data;
      plan_.members[at].output.data = tensor.output.data;
      ++at;
    }
  }
  void copy_in(std::size_t) override {}

  Progress advance() override {
    if (operation_ == nullptr) {
      // Who follows the leader need not look at the others' words, but for which calls they have published.
      if (!is_ordered_ && (lane_.is_leader() || has_unnamed()) && all_published()) {
        if (is_void()) {
          return complete_void();
        }
        if (lane_.is_leader()) {
          lane_.append(description().id);
        }
        is_ordered_ = true;
      }
      if (lane_.head() != description().id) {
        return Progress::idle;
      }
      const bool is_trivial = size() == 1 || list().bytes() == 0;
      operation_ =
          is_trivial ? allreduce_of_single_rank(plan_) : staged_allreduce(lane_.channel(), plan_, lane_.thresholds());
    }
    const Progress progress = operation_->advance();
    if (progress != Progress::done) {
      return progress;
    }
    lane_.pop();
    return complete();
  }

  std::uint64_t published_by(int rank) const override { return line(rank).published.instance(epoch()); }
  std::vector<int> waiting_for() const override {
    if (operation_ != nullptr) {
      return operation_->waiting_for();
    }
    std::vector<int> late = not_published();
    if (late.empty() && !lane_.is_leader() && !lane_.head()) {
      late = {OrderedLane::kLeader};  // it has not appended this one; if another is the head, that one knows
    }
    return late;
  }

 private:
  void reset() override {
    operation_.reset();
    is_ordered_ = false;
  }

  OrderedLane& lane_;
  Plan plan_;
  std::vector<std::size_t> first_tensor_;  ///< of each member in the plan
  std::unique_ptr<Operation> operation_;
  bool is_ordered_ = false;
};

}  // namespace

std::unique_ptr<HostBucket> make_ordered_bucket(transport::HostArena& arena, const Bucket& bucket, OrderedLane& lane) {
  return std::make_unique<OrderedBucket>(arena, bucket, lane);
}

}  // namespace ronde::collectives
