#include "engine/requests/planning_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "engine/requests/call_order.h"

namespace ronde::engine {
namespace {

struct Caller {
  CallOrder order;
  PlanningNames names;
};

Request call(CallOrder& order, std::int64_t elements, OpKind kind = OpKind::allreduce) {
  Request request;
  request.kind = kind;
  request.call_number = order.take_number();
  request.name = CallOrder::name_of(request.call_number);
  request.has_own_number = true;
  const Tensor tensor{nullptr, DType::float32, {elements}, {}};
  request.tensors.push_back({tensor, tensor});
  return request;
}

std::string planned(Caller& rank, std::int64_t elements, MemoryPlace place = {}) {
  return rank.names.of(call(rank.order, elements), place);
}

TEST(PlanningNamesTest, ALoopComesToTheSamePlanningNames) {
  Caller rank;
  std::vector<std::vector<std::string>> steps;
  for (int step = 0; step < 10; ++step) {
    steps.emplace_back();
    for (std::int64_t elements : {3, 5, 5, 7}) {
      steps.back().push_back(planned(rank, elements));
    }
  }
  EXPECT_EQ(steps[8], steps[9]);
  EXPECT_EQ(std::set<std::string>(steps[9].begin(), steps[9].end()).size(), 4u);
}

TEST(PlanningNamesTest, WhatIsCalledBehindAnEndHasAnotherPlanningName) {
  const auto planned_with = [](std::int32_t tag) {
    Caller rank;
    Request request = call(rank.order, 4);
    request.tag = tag;
    return rank.names.of(request, {});
  };
  EXPECT_EQ(planned_with(0), planned_with(kOwnOrder)) << "the other rank may know how its call came about";
  EXPECT_NE(planned_with(3), planned_with(kOwnOrder));
  EXPECT_NE(planned_with(3), planned_with(4));
  EXPECT_EQ(planned_with(kBehindOther + 3), planned_with(kBehindOther + 4)) << "which never comes again";
  EXPECT_NE(planned_with(kBehindOther + 3), planned_with(3));
  EXPECT_NE(planned_with(kBehindChain + 3), planned_with(kBehindChain + 4));
  EXPECT_EQ(planned_with(kBehindChain + 3), planned_with(kBehindChain + 3));
}

TEST(PlanningNamesTest, ABarrierLeavesThePlanningNamesOfALoop) {
  Caller rank;
  for (std::size_t i = 0; i < PlanningNames::kWindow; ++i) {
    planned(rank, 4);
  }
  const std::string before = planned(rank, 4);
  rank.order.restart();
  EXPECT_EQ(planned(rank, 4), before);
}

TEST(PlanningNamesTest, ItFindsBackAfterACallOutOfTurn) {
  Caller one;
  Caller other;
  planned(other, 999);
  std::string last_of_one;
  std::string last_of_other;
  for (std::size_t i = 0; i <= PlanningNames::kWindow; ++i) {
    last_of_one = planned(one, static_cast<std::int64_t>(i));
    last_of_other = planned(other, static_cast<std::int64_t>(i));
    EXPECT_EQ(last_of_one == last_of_other, i + 1 >= PlanningNames::kWindow) << i;
  }
}

TEST(PlanningNamesTest, PlacesInSharedMemoryAreToldApartByTheirOrder) {
  Caller here;
  Caller there;
  constexpr int kPlaces = 100;
  std::vector<std::string> names;
  for (int list = 0; list < 4; ++list) {  // in the first the window holds other calls too
    for (int i = 0; i < kPlaces; ++i) {
      const std::string name = planned(here, 4, MemoryPlace(4096 * i));
      EXPECT_EQ(name, planned(there, 4, MemoryPlace(128 + 8192 * i)));  // other offsets on another rank
      if (list >= 2) {
        names.push_back(name);
      }
    }
  }
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), kPlaces);
  EXPECT_TRUE(std::equal(names.begin(), names.begin() + kPlaces, names.begin() + kPlaces)) << "each keeps its name";
}

TEST(PlanningNamesTest, WhatBelongsToACallIsPlannedAfterIt) {
  Caller rank;
  Request forward = call(rank.order, 4);
  const std::string planned_as = rank.names.of(forward, {});
  Request backward = forward;
  backward.name += ".grad";
  backward.has_own_number = false;
  const std::string grad = rank.names.of(backward, {});
  EXPECT_NE(grad, "");
  EXPECT_NE(grad, planned_as);
  EXPECT_EQ(rank.names.of(backward, {}), grad);
  backward.call_number += 1024;
  EXPECT_EQ(rank.names.of(backward, {}), "") << "its forward is not known any more";
}

TEST(PlanningNamesTest, RanksThatForgetAreAlikeFromThenOn) {
  Caller one;
  Caller other;
  planned(one, 3);
  planned(other, 5);
  planned(other, 7);
  EXPECT_NE(planned(one, 4), planned(other, 4));
  one.names.forget_last();
  other.names.forget_last();
  for (std::int64_t elements : {4, 0, 1}) {
    EXPECT_EQ(planned(one, elements), planned(other, elements));
  }
}

TEST(PlanningNamesTest, OnlyAllreduceIsPlanned) {
  Caller rank;
  EXPECT_EQ(rank.names.of(call(rank.order, 4, OpKind::allgather), {}), "");
}

}  // namespace
}  // namespace ronde::engine
