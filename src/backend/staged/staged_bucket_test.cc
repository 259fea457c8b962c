#include "backend/staged/staged_bucket.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/staged/testing/equal_ranks.h"

namespace ronde::backend {
namespace {

/// Members of float32, averaged.
Bucket bucket_of(const std::vector<std::int64_t>& sizes) {
  Bucket bucket;
  for (const std::int64_t size : sizes) {
    Descriptor descriptor;
    descriptor.reduce_op = ReduceOp::average;
    descriptor.tensors.push_back({DType::float32, {size}});
    bucket.members.push_back({"member", descriptor});
  }
  return bucket;
}

RequestTensor tensor_of(std::vector<float>& input, std::vector<float>& output) {
  const auto size = static_cast<std::int64_t>(input.size());
  RequestTensor tensor;
  tensor.input.dtype = tensor.output.dtype = DType::float32;
  tensor.input.shape = tensor.output.shape = {size};
  tensor.input.data = input.data();
  tensor.output.data = output.data();
  return tensor;
}

struct InEqualRanks : testing::Test {
  /// The next instance, in which all elements of member i are base + i; true if it ends.
  bool run(StagedBucket& staged, float base) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i].assign(inputs[i].size(), base + static_cast<float>(i));
      const RequestTensor tensor = tensor_of(inputs[i], outputs[i]);
      staged.bind(i, {&tensor, 1});
      staged.copy_in(i);
    }
    staged.publish(0);
    for (int looks = 0; looks < 100; ++looks) {
      if (staged.advance() == Progress::done) {
        return true;
      }
    }
    return false;
  }

  /// The average of what four ranks have that are gathered.
  static float in_order(float own) {
    volatile float sum = own;  // rounded at each step
    for (int rank = 1; rank < 4; ++rank) {
      sum = sum + own * EqualRanks::kTimes[rank];
    }
    return sum / 4;
  }

  EqualRanks library{4};
  std::vector<std::vector<float>> inputs{std::vector<float>(3), std::vector<float>(500000), std::vector<float>(1)};
  std::vector<std::vector<float>> outputs = inputs;
  Bucket bucket = bucket_of({3, 500000, 1});
  StagedReduction average = *StagedReduction::of({DType::float32, ReduceOp::average, 1, 1}, library, OpKind::allreduce);
};

TEST_F(InEqualRanks, ABucketIsOneCallInstanceAfterInstance) {
  StagedBucket staged(library, bucket, average);
  for (int instance = 1; instance <= 3; ++instance) {
    ASSERT_TRUE(run(staged, static_cast<float>(10 * instance)));
    EXPECT_EQ(library.calls, instance);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i], inputs[i]) << "the average of equal numbers, member " << i;
    }
  }
}

TEST_F(InEqualRanks, OneThatIsGatheredIsReducedInTheOrderOfRanks) {
  library.gathers = true;
  StagedBucket staged(library, bucket,
                      *StagedReduction::of({DType::float32, ReduceOp::average, 1, 1}, library, OpKind::allreduce));
  for (int instance = 1; instance <= 3; ++instance) {
    ASSERT_TRUE(run(staged, static_cast<float>(10 * instance)));
    EXPECT_EQ(library.calls, instance);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i], std::vector<float>(inputs[i].size(), in_order(inputs[i][0]))) << "member " << i;
    }
  }
}

TEST_F(InEqualRanks, OneThatGoesUnderWayIsGivenUpAndTouchesNothing) {
  {
    StagedBucket staged(library, bucket, average);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const RequestTensor tensor = tensor_of(inputs[i], outputs[i]);
      staged.bind(i, {&tensor, 1});
      staged.copy_in(i);
    }
    staged.publish(0);
    EXPECT_EQ(staged.advance(), Progress::idle);
  }
  EXPECT_TRUE(library.has_given_up) << "it may use its memory for good";
  EXPECT_EQ(outputs[1], std::vector<float>(500000));
}

TEST_F(InEqualRanks, OneThatIsRefusedNeverEnds) {
  library.refuses = true;
  StagedBucket staged(library, bucket, average);
  EXPECT_FALSE(run(staged, 1));
  EXPECT_EQ(library.calls, 1);
}

}  // namespace
}  // namespace ronde::backend
