// Ranks as threads over a backend that needs one order of all that they launch: whoever sleeps is woken by what the log
// launches, whoever breaks by what the log says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/testing/ordered_backend.h"
#include "engine/testing/runners.h"
#include "support/effort.h"

namespace ronde::engine {
namespace {

class OrderedRunners : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, OrderedRunners, testing::Values(2, 3, 5));

TEST_P(OrderedRunners, StepInOrdersOfTheirOwn) {
  const auto order = std::make_shared<LaunchOrder>(GetParam());
  Job job(GetParam(), {}, [&](int rank, std::unique_ptr<backend::Backend> inner) {
    return std::make_unique<OrderedBackend>(std::move(inner), order, rank);
  });
  constexpr int kSteps = effort(150);
  constexpr int kChange = 50;  // of shapes, which breaks the epoch
  const auto ranks = static_cast<float>(GetParam());
  job.run([&](int rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    for (int step = 0; step < kSteps; ++step) {
      std::vector<std::vector<float>> tensors;
      for (const std::size_t elements : {1, 100, 3000, 20000, 70000}) {
        tensors.emplace_back(elements + static_cast<std::size_t>(step / kChange), static_cast<float>(rank + 1));
      }
      std::vector<std::size_t> turns = {0, 1, 2, 3, 4};
      std::shuffle(turns.begin(), turns.end(), random);
      std::vector<TicketPtr> tickets;
      for (const std::size_t turn : turns) {
        tickets.push_back(sum("t" + std::to_string(turn), tensors[turn]));
        ASSERT_TRUE(job[rank].submit(tickets.back()));
      }
      for (const TicketPtr& ticket : tickets) {
        ASSERT_TRUE(job[rank].wait(*ticket, 30 * kSecond)) << ticket->name() << " in step " << step;
        ASSERT_TRUE(ticket->status()) << ticket->status().message();
      }
      for (const std::vector<float>& values : tensors) {
        ASSERT_EQ(values.back(), ranks * (ranks + 1) / 2);
      }
    }
  });
  EXPECT_EQ(order->failure(), "");
  if (kSteps > kChange) {
    EXPECT_THAT(order->all(), testing::Contains(testing::HasSubstr("instance")));
    EXPECT_GE(job[0].engine().replay_counters().breaks, 1u);
  }
}

}  // namespace
}  // namespace ronde::engine
