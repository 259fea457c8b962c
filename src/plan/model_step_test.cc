#include "plan/model_step.h"

#include <gtest/gtest.h>

#include "types/fusion.h"

namespace ronde::plan {
namespace {

/// Two layers of equal work: a large tensor and a small one each.
Model two_layers() {
  Model model;
  model.layers = {{{1 << 20, 10}, 500}, {{1 << 20, 20}, 500}};
  model.samples_per_second = 100;
  return model;
}

TEST(ModelStep, LargeTensorsGoAloneAndSmallOnesTogetherWithTheLastOfThem) {
  const Step step = step_of(two_layers(), 4, 300);
  ASSERT_EQ(step.buckets.size(), 3);
  // Forward 100 ns, the last layer's backward pass 100 ns, the first one's 100 ns.
  EXPECT_EQ(step.buckets[0].bytes, std::size_t{4} << 20);
  EXPECT_NEAR(step.buckets[0].ready_ns, 200, 1e-6);
  std::size_t small = 0;
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_NEAR(step.buckets[i].ready_ns, 300, 1e-6);
    small += step.buckets[i].bytes == 4 * 30 && step.buckets[i].tensors == 2 ? 1 : 0;
  }
  EXPECT_EQ(small, 1);
  EXPECT_EQ(step.samples, 4);
}

TEST(ModelStep, TakesAsLongAsItsSamples) { EXPECT_DOUBLE_EQ(step_of(two_layers(), 4).compute_ns, 4e7); }

TEST(ModelStep, LosesNoBytes) {
  for (const std::string& key : model_keys()) {
    const Model model = find_model(key).value();
    const Step step = step_of(model, 64);
    EXPECT_EQ(step.bytes(), 4 * model.parameters()) << key;
    for (const StepBucket& bucket : step.buckets) {
      EXPECT_TRUE(bucket.tensors == 1 || bucket.bytes <= kFusionThreshold) << key;
      EXPECT_GT(bucket.ready_ns, step.compute_ns / 3) << key;
      EXPECT_LE(bucket.ready_ns, step.compute_ns * (1 + 1e-9)) << key;
    }
  }
}

}  // namespace
}  // namespace ronde::plan
