#include "engine/requests/call_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace ronde::engine {
namespace {

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

std::string planned(CallOrder& order, std::int64_t elements, MemoryPlace place = {}) {
  return order.planning_name(call(order, elements), place);
}

TEST(CallOrderTest, NumbersCountFromTheLastBarrier) {
  CallOrder order;
  EXPECT_EQ(CallOrder::name_of(order.take_number()), "noname.0.1");
  EXPECT_EQ(CallOrder::name_of(order.take_number()), "noname.0.2");
  EXPECT_EQ(CallOrder::name_of(order.restart()), "noname.0.2");
  EXPECT_EQ(CallOrder::name_of(order.take_number()), "noname.1.1");
  order.restart_at(7);
  EXPECT_EQ(CallOrder::name_of(order.last_number()), "noname.7.0");
  EXPECT_EQ(CallOrder::name_of(order.take_number()), "noname.7.1");
}

TEST(CallOrderTest, ALoopComesToTheSamePlanningNames) {
  CallOrder order;
  std::vector<std::vector<std::string>> steps;
  for (int step = 0; step < 10; ++step) {
    steps.emplace_back();
    for (std::int64_t elements : {3, 5, 5, 7}) {
      steps.back().push_back(planned(order, elements));
    }
  }
  EXPECT_EQ(steps[8], steps[9]);
  EXPECT_EQ(std::set<std::string>(steps[9].begin(), steps[9].end()).size(), 4u);
}

TEST(CallOrderTest, ABarrierLeavesThePlanningNamesOfALoop) {
  CallOrder order;
  for (std::size_t i = 0; i < CallOrder::kWindow; ++i) {
    planned(order, 4);
  }
  const std::string before = planned(order, 4);
  order.restart();
  EXPECT_EQ(planned(order, 4), before);
}

TEST(CallOrderTest, ItFindsBackAfterACallOutOfTurn) {
  CallOrder one;
  CallOrder other;
  planned(other, 999);
  std::string last_of_one;
  std::string last_of_other;
  for (std::size_t i = 0; i <= CallOrder::kWindow; ++i) {
    last_of_one = planned(one, static_cast<std::int64_t>(i));
    last_of_other = planned(other, static_cast<std::int64_t>(i));
    EXPECT_EQ(last_of_one == last_of_other, i + 1 >= CallOrder::kWindow) << i;
  }
}

TEST(CallOrderTest, PlacesInSharedMemoryAreToldApartByTheirOrder) {
  CallOrder here;
  CallOrder there;
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

TEST(CallOrderTest, WhatBelongsToACallIsPlannedAfterIt) {
  CallOrder order;
  Request forward = call(order, 4);
  const std::string planned_as = order.planning_name(forward, {});
  Request backward = forward;
  backward.name += ".grad";
  backward.has_own_number = false;
  const std::string grad = order.planning_name(backward, {});
  EXPECT_NE(grad, "");
  EXPECT_NE(grad, planned_as);
  EXPECT_EQ(order.planning_name(backward, {}), grad);
  backward.call_number += 1024;
  EXPECT_EQ(order.planning_name(backward, {}), "") << "its forward is not known any more";
}

TEST(CallOrderTest, OnlyAllreduceIsPlanned) {
  CallOrder order;
  EXPECT_EQ(order.planning_name(call(order, 4, OpKind::allgather), {}), "");
}

}  // namespace
}  // namespace ronde::engine
