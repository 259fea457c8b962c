#include "plan/model_step.h"

#include <algorithm>
#include <deque>

#include "agreement/bucket_packing.h"
#include "types/fusion.h"

namespace ronde::plan {

namespace {

constexpr double kForwardShare = 1.0 / 3;
constexpr std::size_t kElementBytes = 4;

struct Gradient {
  std::size_t bytes = 0;
  double ready_ns = 0;
};

/// In the order of the backward pass.
std::vector<Gradient> gradients_of(const Model& model, double compute_ns) {
  const double of_all = model.macs();
  double done = 0;
  std::vector<Gradient> gradients;
  for (auto layer = model.layers.rbegin(); layer != model.layers.rend(); ++layer) {
    done += layer->macs;
    const double ready_ns = compute_ns * (kForwardShare + (1 - kForwardShare) * done / of_all);
    for (auto elements = layer->tensors.rbegin(); elements != layer->tensors.rend(); ++elements) {
      gradients.push_back({*elements * kElementBytes, ready_ns});
    }
  }
  return gradients;
}

}  // namespace

Step step_of(const Model& model, int samples, double compute_ns) {
  const std::vector<Gradient> gradients = gradients_of(model, compute_ns);
  std::deque<std::string> names;
  std::deque<agreement::NameHistory> histories;
  std::vector<agreement::NameHistory*> all;
  for (const Gradient& each : gradients) {
    agreement::NameHistory& history = histories.emplace_back();
    history.order = histories.size() - 1;
    history.name = &names.emplace_back(std::to_string(history.order));
    history.descriptor.reduce_op = ReduceOp::average;
    history.descriptor.tensors = {{DType::float32, {static_cast<std::int64_t>(each.bytes / kElementBytes)}}};
    all.push_back(&history);
  }
  const agreement::BucketPacking packing({kFusionThreshold, kFusionSmall, {}}, nullptr);
  Step step{.name = model.title, .compute_ns = compute_ns, .buckets = {}, .samples = samples};
  for (const std::vector<agreement::NameHistory*>& members : packing.pack(all, true)) {
    StepBucket bucket;
    bucket.name = "gradient " + *members.front()->name;
    bucket.tensors = members.size();
    for (const agreement::NameHistory* member : members) {
      const Gradient& gradient = gradients[member->order];
      bucket.bytes += gradient.bytes;
      bucket.ready_ns = std::max(bucket.ready_ns, gradient.ready_ns);
    }
    step.buckets.push_back(std::move(bucket));
  }
  std::stable_sort(step.buckets.begin(), step.buckets.end(),
                   [](const StepBucket& a, const StepBucket& b) { return a.ready_ns < b.ready_ns; });
  return step;
}

Step step_of(const Model& model, int samples) {
  return step_of(model, samples, samples / model.samples_per_second * 1e9);
}

}  // namespace ronde::plan
