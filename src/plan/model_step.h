// The step of a model: when its gradients are ready, and which of them Ronde averages together.
#pragma once

#include "plan/models.h"
#include "plan/step.h"

namespace ronde::plan {

/// `compute_ns`: of a rank's `samples`. A third of it is the forward pass, the rest the backward pass, in which a layer
/// takes its share of the multiplications. Tensors are put into buckets as Ronde does it for gradients that a step
/// submits before it waits for any (agreement/bucket_packing.h), with Ronde's own thresholds.
Step step_of(const Model& model, int samples, double compute_ns);

/// The same, as long as the model's own rate has it.
Step step_of(const Model& model, int samples);

}  // namespace ronde::plan
