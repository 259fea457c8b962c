#include "engine/plans/plan_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

using testing::ElementsAre;

TicketPtr reduction_of(const std::string& name, const std::vector<std::int64_t>& elements, Nanoseconds timeout) {
  Request request;
  request.name = name;
  request.timeout = timeout;
  for (const std::int64_t count : elements) {
    Tensor tensor;
    tensor.shape = {count};
    request.tensors.push_back({tensor, tensor});
  }
  return std::make_shared<Ticket>(std::move(request));
}

std::vector<PlanRun> runs_of(const std::vector<TicketPtr>& tickets) {
  std::vector<control::ExecEntry::Item> items;
  for (const TicketPtr& ticket : tickets) {
    items.push_back({ticket->name()});
  }
  return make_plan_runs(items, tickets, {1000, 400}, Group{0, {0, 1}});
}

TEST(PlanRuns, AFusedPlanHasTheTicketsOfAllItsTensorsAndTheLongestLimit) {
  const TicketPtr a = reduction_of("a", {1, 1}, 10 * kSecond);
  const TicketPtr b = reduction_of("b", {1}, 20 * kSecond);
  const std::vector<PlanRun> runs = runs_of({a, b});
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].plan.members.size(), 3u);
  EXPECT_THAT(runs[0].owners, ElementsAre(a, b)) << "each once";
  EXPECT_EQ(runs[0].timeout, 20 * kSecond);
}

TEST(PlanRuns, ATicketWaitsForEveryPlanThatHasATensorOfIt) {
  const TicketPtr grouped = reduction_of("grouped", {1, 500, 500}, kSecond);
  const std::vector<PlanRun> runs = runs_of({grouped});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_FALSE(grouped->plans().finished({}));
  EXPECT_FALSE(grouped->plans().finished({}));
  EXPECT_TRUE(grouped->plans().finished({}));
}

TEST(PlanRuns, AShortLimitLeavesAPeerTimeToBeScheduled) {
  EXPECT_EQ(runs_of({reduction_of("a", {1}, kMillisecond)}).at(0).timeout, PlanRun().timeout);
}

}  // namespace
}  // namespace ronde::engine
