// Step: what one rank computes and has to average in one training step, when the network costs nothing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ronde::plan {

/// Tensors that are averaged together.
struct StepBucket {
  std::string name;
  std::size_t bytes = 0;    ///< more than 0
  std::size_t tensors = 1;  ///< for people
  double ready_ns = 0;      ///< from the step's begin until this rank has the last of its gradients
};

struct Step {
  std::string name;                 ///< "ResNet-50"
  double compute_ns = 0;            ///< forward and backward pass and what else there is but waiting
  std::vector<StepBucket> buckets;  ///< in the order in which they are ready
  int samples = 0;                  ///< that a rank's compute_ns is for; 0: not known
  int ranks = 1;                    ///< of the job that it is of, whose samples together are the global batch

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const StepBucket& each : buckets) {
      sum += each.bytes;
    }
    return sum;
  }
  /// The same work, `factor` times as long.
  Step scaled(double factor) const {
    Step step = *this;
    step.compute_ns *= factor;
    for (StepBucket& each : step.buckets) {
      each.ready_ns *= factor;
    }
    return step;
  }
};

}  // namespace ronde::plan
