#include "engine/plans/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace ronde::engine {
namespace {

using testing::ElementsAre;

/// Requests that live as long as the test.
class PlannerTest : public testing::Test {
 protected:
  void add(const std::string& name, std::vector<std::int64_t> elements, ReduceOp op = ReduceOp::sum,
           DType dtype = DType::float32, OpKind kind = OpKind::allreduce) {
    Request request;
    request.kind = kind;
    request.name = name;
    request.reduce_op = op;
    for (std::int64_t count : elements) {
      Tensor tensor;
      tensor.dtype = dtype;
      tensor.shape = {count};
      request.tensors.push_back({tensor, tensor});
    }
    requests_.push_back(std::move(request));
    agreed_.push_back({&requests_.back(), {}});
  }
  std::vector<PlannedWork> plans() { return make_plans(agreed_, settings_, Group{0, {0, 1}}); }
  std::vector<std::vector<std::string>> names() {
    std::vector<std::vector<std::string>> all;
    for (const PlannedWork& work : plans()) {
      all.emplace_back();
      for (const PlanMember& member : work.plan.members) {
        all.back().push_back(member.name);
      }
    }
    return all;
  }

  control::SettingsEntry settings_{1000, 400};
  std::deque<Request> requests_;
  std::vector<Agreed> agreed_;
};

TEST_F(PlannerTest, NothingAgreedNothingPlanned) { EXPECT_TRUE(plans().empty()); }

TEST_F(PlannerTest, SmallTensorsShareAPlanUpToTheThreshold) {
  for (const char* name : {"a", "b", "c"}) {
    add(name, {100});  // 400 bytes, the largest that counts as small
  }
  EXPECT_THAT(names(), ElementsAre(ElementsAre("a", "b"), ElementsAre("c")));
}

TEST_F(PlannerTest, LargeTensorsGoAlone) {
  add("a", {1});
  add("big", {101});
  add("b", {1});
  EXPECT_THAT(names(), ElementsAre(ElementsAre("a", "b"), ElementsAre("big")));
}

TEST_F(PlannerTest, ThresholdZeroFusesNothing) {
  settings_.fusion_threshold = 0;
  add("a", {1});
  add("b", {1});
  EXPECT_THAT(names(), ElementsAre(ElementsAre("a"), ElementsAre("b")));
}

TEST_F(PlannerTest, OnlyWhatIsReducedAlikeIsFused) {
  add("sum", {1});
  add("max", {1}, ReduceOp::max);
  add("double", {1}, ReduceOp::sum, DType::float64);
  add("sum2", {1});
  add("cast", {1}, ReduceOp::sum, DType::float32, OpKind::broadcast);
  EXPECT_THAT(names(),
              ElementsAre(ElementsAre("sum", "sum2"), ElementsAre("max"), ElementsAre("double"), ElementsAre("cast")));
}

TEST_F(PlannerTest, AGroupMaySpanPlans) {
  add("group", {1, 500, 2});
  const auto works = plans();
  ASSERT_EQ(works.size(), 2u);
  EXPECT_THAT(works[0].owners, ElementsAre(0u, 0u));
  EXPECT_THAT(works[1].owners, ElementsAre(0u));
}

TEST_F(PlannerTest, GatheredTensorsCarryTheirRows) {
  add("g", {3}, ReduceOp::sum, DType::float32, OpKind::allgather);
  agreed_[0].rows = {{3, 4}};
  const auto works = plans();
  ASSERT_EQ(works.size(), 1u);
  EXPECT_THAT(works[0].plan.rows, ElementsAre(ElementsAre(3, 4)));
}

TEST_F(PlannerTest, ABarrierIsAPlanWithoutBytes) {
  add("b", {}, ReduceOp::sum, DType::float32, OpKind::barrier);
  const auto works = plans();
  ASSERT_EQ(works.size(), 1u);
  EXPECT_EQ(works[0].plan.kind, OpKind::barrier);
  EXPECT_EQ(works[0].plan.bytes(), 0u);
  EXPECT_THAT(works[0].owners, ElementsAre(0u));
}

TEST_F(PlannerTest, RootIsAnIndexInTheGroup) {
  add("cast", {1}, ReduceOp::sum, DType::float32, OpKind::broadcast);
  requests_[0].root = 7;
  EXPECT_EQ(make_plans(agreed_, settings_, Group{1, {3, 7}})[0].plan.root, 1);
}

}  // namespace
}  // namespace ronde::engine
