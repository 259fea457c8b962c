#include "backend/staged/staged_backend.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/staged/testing/equal_ranks.h"

namespace ronde::backend {
namespace {

/// Counts what is left to it.
class Within final : public Backend {
 public:
  explicit Within(int& launches) : launches_(launches) {}
  std::string_view name() const override { return "within"; }
  Status supports(const Plan&) const override { return {}; }
  Result<std::unique_ptr<Operation>> launch(const Plan&) override {
    ++launches_;
    return Status::error(Code::internal, "counted");
  }
  Thresholds first_thresholds() const override { return {}; }
  BucketLayout* layout() override { return nullptr; }
  Result<std::unique_ptr<PersistentCollective>> prepare(const Bucket&, const Thresholds&) override {
    return Status::error(Code::internal, "not asked");
  }
  void begin_epoch(const Thresholds&) override {}
  MemoryPlace place_of(const Request&) const override { return {}; }
  bool may_reduce_at(const MemoryPlaces&) const override { return false; }
  bool is_withdrawn(const MemoryPlace&, std::uint64_t) const override { return false; }

 private:
  int& launches_;
};

Plan sum_of(std::vector<float>& input, std::vector<float>& output) {
  Plan plan;
  PlanMember member;
  member.input.dtype = member.output.dtype = DType::float32;
  member.input.shape = member.output.shape = {static_cast<std::int64_t>(input.size())};
  member.input.data = input.data();
  member.output.data = output.data();
  plan.members.push_back(member);
  return plan;
}

struct AroundAnother : testing::Test {
  int launches_within = 0;
  std::shared_ptr<EqualRanks> library = std::make_shared<EqualRanks>(2);
  std::unique_ptr<Backend> backend = make_staged_backend(std::make_unique<Within>(launches_within), library);
  std::vector<float> input = std::vector<float>(700000, 1.5F);
  std::vector<float> output = std::vector<float>(700000);
};

TEST_F(AroundAnother, WhatTheLibraryHasGoesThroughItPieceByPiece) {
  const Plan plan = sum_of(input, output);
  const auto launched = backend->launch(plan);
  ASSERT_TRUE(launched);
  Progress progress = Progress::again;
  for (int looks = 0; looks < 100 && progress != Progress::done; ++looks) {
    progress = launched.value()->advance();
  }
  EXPECT_EQ(progress, Progress::done);
  EXPECT_EQ(output, std::vector<float>(700000, 3));
  EXPECT_EQ(library->calls, 3) << "of 1 MiB";
  EXPECT_EQ(launches_within, 0);
  EXPECT_FALSE(library->has_given_up);
  EXPECT_EQ(backend->name(), "equal");
  EXPECT_TRUE(backend->is_ordered());
}

TEST_F(AroundAnother, AllElseGoesToTheBackendWithin) {
  Plan plan = sum_of(input, output);
  plan.reduce_op = ReduceOp::max;
  EXPECT_FALSE(backend->launch(plan));
  EXPECT_EQ(launches_within, 1);
  EXPECT_EQ(library->calls, 0);
}

TEST_F(AroundAnother, APlanThatGoesBetweenTwoPiecesIsGivenUp) {
  const Plan plan = sum_of(input, output);
  {
    const auto launched = backend->launch(plan);
    ASSERT_TRUE(launched);
    for (int looks = 0; looks < 100 && library->calls < 2; ++looks) {
      launched.value()->advance();
    }
    ASSERT_EQ(library->calls, 2);
  }
  EXPECT_TRUE(library->has_given_up) << "other ranks wait in the library for the rest";
}

TEST_F(AroundAnother, ABucketThatTheLibraryDoesNotReduceIsNotPlaced) {
  Bucket bucket;
  Descriptor descriptor;
  descriptor.tensors.push_back({DType::float32, {5}});
  bucket.members.push_back({"member", descriptor});
  EXPECT_TRUE(backend->layout()->place(bucket, {}));
  EXPECT_TRUE(backend->prepare(bucket, {}));
  bucket.members[0].descriptor.tensors[0].dtype = DType::int32;
  EXPECT_FALSE(backend->layout()->place(bucket, {}));
  EXPECT_FALSE(backend->prepare(bucket, {}));
}

}  // namespace
}  // namespace ronde::backend
