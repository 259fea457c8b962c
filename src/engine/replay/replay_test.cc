// Replay in whole worlds, moved by hand: the steady state sends nothing, and every way out of it loses nothing.
#include "engine/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/testing/steps.h"
#include "support/effort.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using test::LocalWorld;
using testing::HasSubstr;

class ReplayWorlds : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ReplayWorlds, testing::Values(2, 3, 5, 8));

TEST_P(ReplayWorlds, TheSteadyStateSendsNothing) {
  Steps steps(GetParam());
  for (int i = 0; i < 8; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(kModel));
  }
  const std::uint64_t messages = steps.messages();
  const std::uint64_t entries = steps.entries();
  const std::uint64_t instances = steps.counters(0).instances;
  for (int i = 0; i < 20; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(kModel));
  }
  EXPECT_EQ(steps.messages(), messages);
  EXPECT_EQ(steps.entries(), entries);
  EXPECT_GE(steps.counters(0).instances, instances + 20);
  EXPECT_EQ(steps.counters(0).breaks, 0u);
}

// What scripts do: a metric every tenth step, two optimizers in turn, a phase of evaluation.
TEST(Replay, AThousandStepsOfAScriptSendNothing) {
  Steps steps(2);
  auto model = kModel;
  model[5].second = 70000;  // still ordered, and a thousand of it are quick
  const std::vector<std::pair<std::string, std::size_t>> other = {{"generator.a", 50}, {"generator.b", 20000}};
  std::uint64_t before = 0;
  for (int i = 0; i < effort(1000); ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(i % 2 == 0 ? model : other));
    if (i % 10 == 9) {
      ASSERT_NO_FATAL_FAILURE(steps.step({{"metric", 1}}));
    }
    if (i == 500) {
      for (int batch = 0; batch < 20; ++batch) {
        ASSERT_NO_FATAL_FAILURE(steps.step({{"accuracy", 2}}));
      }
    }
    if (i == 60 || i == 510) {
      before = steps.messages();
    }
    if (i == 499) {
      EXPECT_EQ(steps.messages(), before);
    }
  }
  EXPECT_EQ(steps.messages(), before);
  EXPECT_EQ(steps.counters(0).breaks, 0u);
}

TEST(Replay, TurnedOffEverythingIsAgreedByMessages) {
  Settings settings;
  settings.replay = false;
  Steps steps(2, settings);
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(kModel));
  }
  EXPECT_EQ(steps.counters(0).installs, 0u);
}

// ---- Breaks

TEST_P(ReplayWorlds, AnotherShapeOnOneRankIsTheSameErrorEverywhereAndTheOthersAreWhole) {
  Steps steps(GetParam());
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(kModel));
  }
  ASSERT_GT(steps.counters(0).instances, 0u);
  LocalWorld& world = steps.world;
  std::vector<std::vector<float>> odd(static_cast<std::size_t>(world.size()), std::vector<float>(64, 1));
  odd[0].resize(65);
  std::vector<TicketPtr> tickets;
  for (int rank = 0; rank < world.size(); ++rank) {
    steps.submit(rank, "conv", 3000);
    tickets.push_back(world.submit(rank, test::allreduce("norm", odd[static_cast<std::size_t>(rank)])));
    steps.submit(rank, "head", 70001);
  }
  ASSERT_NO_FATAL_FAILURE(steps.finish());
  for (int rank = 0; rank < world.size(); ++rank) {
    const TicketPtr& ticket = tickets[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(ticket->is_done());
    EXPECT_EQ(ticket->status().code(), Code::mismatch);
    EXPECT_EQ(ticket->status().message(), tickets[0]->status().message());
    world.wait(rank, *ticket);
  }
  for (int i = 0; i < 12; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(kModel));
  }
  EXPECT_GE(steps.counters(0).installs, 2u) << "replayed again";
}

TEST_P(ReplayWorlds, AnotherShapeOnAllRanksIsLearnt) {
  Steps steps(GetParam());
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(kModel));
  }
  auto larger = kModel;
  larger[3].second = 3500;
  for (int i = 0; i < 12; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(larger));
  }
  const std::uint64_t messages = steps.messages();
  ASSERT_NO_FATAL_FAILURE(steps.step(larger));
  EXPECT_EQ(steps.messages(), messages);
}

TEST_P(ReplayWorlds, ATensorThatIsMissingOnAllRanksHoldsUpNobody) {
  Steps steps(GetParam());
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(kModel));
  }
  LocalWorld& world = steps.world;
  std::vector<TicketPtr> tickets;
  for (int rank = 0; rank < world.size(); ++rank) {
    for (const auto& [name, elements] : kModel) {
      if (name != "bias") {
        tickets.push_back(steps.submit(rank, name, elements));
        world.engine(rank).want(*tickets.back());
      }
    }
  }
  for (int i = 0; i < 10; ++i) {
    world.settle();
    world.clock().advance(5 * kMillisecond);
  }
  ASSERT_NO_FATAL_FAILURE(steps.finish());
  for (int i = 0; i < 12; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(kModel));
  }
}

TEST_P(ReplayWorlds, ARankThatIsLateIsNamedAndOwesTheError) {
  Steps steps(GetParam());
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step({{"x", 5}}));
  }
  LocalWorld& world = steps.world;
  std::vector<std::vector<float>> values(static_cast<std::size_t>(world.size()), std::vector<float>(5, 1));
  std::vector<TicketPtr> tickets;
  for (int rank = 0; rank + 1 < world.size(); ++rank) {
    Request request = test::allreduce("x", values[static_cast<std::size_t>(rank)]);
    request.timeout = 5 * kSecond;
    tickets.push_back(world.submit(rank, std::move(request)));
  }
  for (int i = 0; i < 70; ++i) {
    world.settle();
    world.clock().advance(100 * kMillisecond);
  }
  world.settle();
  for (const TicketPtr& ticket : tickets) {
    ASSERT_TRUE(ticket->is_done());
    EXPECT_EQ(ticket->status().code(), Code::timed_out);
    EXPECT_EQ(ticket->status().failed_rank(), world.size() - 1);
  }
  const TicketPtr late = world.submit(world.size() - 1, test::allreduce("x", values.back()));
  world.settle();
  ASSERT_TRUE(late->is_done());
  EXPECT_EQ(late->status().message(), tickets[0]->status().message());
  world.wait(world.size() - 1, *late);
  for (int rank = 0; rank + 1 < world.size(); ++rank) {
    world.wait(rank, *tickets[static_cast<std::size_t>(rank)]);
  }
  for (int i = 0; i < 8; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step({{"x", 5}}));
  }
}

// Rank 0 validates while the others wait: they report a stall, kill nobody, and go on.
TEST(Replay, AStallIsReportedInReplayToo) {
  Settings settings;
  settings.stall = 60 * kSecond;
  Steps steps(2, settings);
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step({{"x", 5}}));
  }
  steps.submit(1, "x", 5);
  for (int i = 0; i < 95; ++i) {
    steps.world.settle();
    steps.world.clock().advance(kSecond);
  }
  const auto lines = steps.world.log().take();
  ASSERT_GE(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("'x' waits for rank 0; rank 1 has submitted"));
  steps.submit(0, "x", 5);
  ASSERT_NO_FATAL_FAILURE(steps.finish());
}

// ---- Ends

class ReplayVictim : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ReplayVictim, testing::Values(0, 1, 2));

TEST_P(ReplayVictim, ADeathInReplayEndsEveryCallWithItsName) {
  for (int steps_before = 0; steps_before < 12; steps_before += 12 / effort(12)) {
    Steps steps(3);
    for (int i = 0; i < 6; ++i) {
      ASSERT_NO_FATAL_FAILURE(steps.step(kModel));
    }
    std::vector<std::pair<int, TicketPtr>> tickets;
    for (int rank = 0; rank < 3; ++rank) {
      for (const auto& [name, elements] : kModel) {
        tickets.emplace_back(rank, steps.submit(rank, name, elements));
      }
    }
    for (int i = 0; i < steps_before; ++i) {
      for (int rank = 0; rank < 3; ++rank) {
        steps.world.step(rank);
      }
    }
    steps.world.kill(GetParam());
    steps.world.settle();
    for (const auto& [rank, ticket] : tickets) {
      if (rank == GetParam()) {
        continue;
      }
      ASSERT_TRUE(ticket->is_done()) << ticket->name();
      if (!ticket->status()) {
        EXPECT_EQ(ticket->status().code(), Code::peer_lost);
        EXPECT_EQ(ticket->status().failed_rank(), GetParam());
      }
      EXPECT_EQ(steps.world.try_submit(rank, test::barrier("later")).code(), Code::peer_lost);
    }
  }
}

TEST_P(ReplayVictim, ARankThatLeavesInReplayFailsWhatTheOthersWaitFor) {
  Steps steps(3);
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(kModel));
  }
  LocalWorld& world = steps.world;
  std::vector<TicketPtr> tickets;
  for (int rank = 0; rank < 3; ++rank) {
    if (rank != GetParam()) {
      tickets.push_back(steps.submit(rank, "head", 70001));
      tickets.push_back(steps.submit(rank, "bias", 100));
    }
  }
  world.settle();
  world.engine(GetParam()).begin_leave();
  world.settle();
  world.engine(GetParam()).finish_leave();
  world.settle();
  for (const TicketPtr& ticket : tickets) {
    ASSERT_TRUE(ticket->is_done()) << ticket->name();
    EXPECT_EQ(ticket->status().code(), Code::peer_left);
    EXPECT_EQ(ticket->status().failed_rank(), GetParam());
  }
}

TEST_P(ReplayWorlds, AllLeaveTogetherFromReplay) {
  Steps steps(GetParam());
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step(kModel));
  }
  for (int rank = 0; rank < steps.world.size(); ++rank) {
    steps.submit(rank, "head", 70001);
    steps.world.engine(rank).begin_leave();
  }
  ASSERT_NO_FATAL_FAILURE(steps.finish());
  for (int rank = 0; rank < steps.world.size(); ++rank) {
    EXPECT_EQ(steps.world.engine(rank).leaving(), Leaving::over);
  }
}

// A peer that is stopped in the middle of a break: the time of a request ends it.
TEST(Replay, ABreakThatDoesNotEndFailsTheGroupInTime) {
  Steps steps(2);
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step({{"x", 5}}));
  }
  std::vector<float> values(5, 1);
  Request request = test::allreduce("x", values);
  request.timeout = 5 * kSecond;
  const TicketPtr ticket = steps.world.submit(0, std::move(request));
  steps.world.settle();
  steps.world.pause(1);
  for (int i = 0; i < 120; ++i) {
    steps.world.clock().advance(100 * kMillisecond);
    steps.world.settle();
  }
  ASSERT_TRUE(ticket->is_done());
  EXPECT_EQ(ticket->status().code(), Code::timed_out);
  EXPECT_EQ(ticket->status().failed_rank(), 1);
}

// What a rank submits while a stopped one keeps the break from ending has a limit too.
TEST(Replay, ARequestHeldInABreakHasALimit) {
  Steps steps(2);
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step({{"x", 5}}));
  }
  steps.world.pause(1);
  std::vector<float> values(6, 1);
  Request request = test::allreduce("x", values);
  request.timeout = 5 * kSecond;
  const TicketPtr ticket = steps.world.submit(0, std::move(request));
  for (int i = 0; i < 120 && !ticket->is_done(); ++i) {
    steps.world.settle();
    EXPECT_TRUE(ticket->is_done() || steps.world.engine(0).next_timer() < kNever) << "nobody would look";
    steps.world.clock().advance(100 * kMillisecond);
  }
  steps.world.settle();
  ASSERT_TRUE(ticket->is_done());
  EXPECT_EQ(ticket->status().code(), Code::timed_out);
  EXPECT_EQ(ticket->status().failed_rank(), 1);
}

// A request that was negotiated moves into its bucket by ADD: from then on clocks must be watched.
TEST(Replay, WhatComesIntoABucketFromNegotiationIsWatched) {
  Steps steps(2);
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step({{"x", 5}}));
  }
  for (int i = 0; i < 12; ++i) {
    const TicketPtr ticket = steps.submit(0, "y", 7);
    steps.world.engine(0).want(*ticket);
    steps.world.settle();
    EXPECT_LT(steps.world.engine(0).next_timer(), kNever) << "round " << i;
    steps.submit(1, "y", 7);
    ASSERT_NO_FATAL_FAILURE(steps.finish());
  }
}

// A program that only uses callbacks and leaves out one of two fused tensors on all ranks.
TEST(Replay, ACallbackIsAWishToo) {
  Steps steps(2);
  for (int i = 0; i < 6; ++i) {
    ASSERT_NO_FATAL_FAILURE(steps.step({{"x", 5}, {"y", 5}}));
  }
  std::vector<std::vector<float>> values(2, std::vector<float>(5, 1));
  std::vector<TicketPtr> tickets;
  for (int rank = 0; rank < 2; ++rank) {
    tickets.push_back(std::make_shared<Ticket>(test::allreduce("x", values[static_cast<std::size_t>(rank)]),
                                               [](const TicketPtr&, const Status&) {}));
    ASSERT_TRUE(steps.world.engine(rank).submit(tickets.back()));
  }
  for (int i = 0; i < 20; ++i) {
    steps.world.settle();
    steps.world.clock().advance(2 * kMillisecond);
  }
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(tickets[static_cast<std::size_t>(rank)]->is_done());
    EXPECT_TRUE(tickets[static_cast<std::size_t>(rank)]->status());
    steps.world.wait(rank, *tickets[static_cast<std::size_t>(rank)]);
  }
}

// The coordinator goes while a bucket waits for a rank that is late. The others must not touch the bucket any more once
// they have told their callers.
TEST(Replay, TheCoordinatorGoesWhileABucketWaitsForALateRank) {
  for (int late_steps = 0; late_steps < 8; ++late_steps) {
    Steps steps(3);
    for (int i = 0; i < 6; ++i) {
      ASSERT_NO_FATAL_FAILURE(steps.step({{"x", 3000}}));
    }
    LocalWorld& world = steps.world;
    auto values = std::make_unique<std::vector<float>>(3000, 1.0f);
    steps.submit(0, "x", 3000);
    const TicketPtr ticket = world.submit(1, test::allreduce("x", *values));
    for (int i = 0; i < 2; ++i) {
      world.step(0);
      world.step(1);
    }
    world.pause(2);
    world.engine(0).begin_leave();
    for (int i = 0; i < 4; ++i) {
      world.step(0);
      world.step(1);
    }
    world.engine(0).finish_leave();
    world.kill(0);
    for (int i = 0; i < late_steps; ++i) {
      world.step(1);
    }
    steps.submit(2, "x", 3000);
    if (ticket->is_done()) {
      values.reset();  // what a caller may do: ASan sees who touches it now
    }
    world.resume(2);
    world.settle();
    ASSERT_TRUE(ticket->is_done());
    EXPECT_EQ(ticket->status().code(), Code::peer_left) << ticket->status().message();
  }
}

// ---- Tensors in shared memory

TEST_P(ReplayWorlds, TensorsInReachableMemoryAreReducedWhereTheyLie) {
  LocalWorld world(GetParam());
  constexpr std::size_t kElements = 100003;
  std::vector<std::shared_ptr<void>> buckets;
  std::vector<std::shared_ptr<void>> others;
  for (int rank = 0; rank < world.size(); ++rank) {
    // Each rank has allocated something else before, so the offsets differ.
    auto other = world.engine(rank).memory().allocate(static_cast<std::size_t>(rank) * 5000);
    ASSERT_TRUE(other) << other.status().message();
    others.push_back(*other);
    auto bucket = world.engine(rank).memory().allocate(kElements * sizeof(float));
    ASSERT_TRUE(bucket) << bucket.status().message();
    buckets.push_back(*bucket);
  }
  for (int step = 0; step < 8; ++step) {
    std::vector<TicketPtr> tickets;
    for (int rank = 0; rank < world.size(); ++rank) {
      auto* data = static_cast<float*>(buckets[static_cast<std::size_t>(rank)].get());
      std::fill(data, data + kElements, static_cast<float>(rank + 1));
      Request request;
      request.name = "gradient";
      Tensor tensor;
      tensor.data = data;
      tensor.shape = {kElements};
      request.tensors.push_back({tensor, tensor});
      tickets.push_back(world.submit(rank, request));
    }
    world.settle();
    for (int rank = 0; rank < world.size(); ++rank) {
      const TicketPtr& ticket = tickets[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(ticket->is_done() && ticket->status());
      const auto* data = static_cast<float*>(buckets[static_cast<std::size_t>(rank)].get());
      const float sum = static_cast<float>(world.size() * (world.size() + 1) / 2);
      EXPECT_EQ(std::count(data, data + kElements, sum), static_cast<std::ptrdiff_t>(kElements));
      world.wait(rank, *ticket);
    }
  }
  EXPECT_GT(world.engine(0).replay_counters().instances, 0u);
  if (world.size() > 1) {
    EXPECT_GT(world.engine(0).counters().direct_bytes, 0u);
    EXPECT_EQ(world.engine(0).counters().direct_bytes + world.engine(0).replay_counters().direct_bytes,
              world.engine(0).counters().bytes_reduced);
  }
}

TEST_P(ReplayWorlds, ResultsElsewhereInReachableMemoryAreWrittenThere) {
  LocalWorld world(GetParam());
  constexpr std::size_t kElements = 100003;
  const auto allocate = [&](int rank) {
    auto bucket = world.engine(rank).memory().allocate(kElements * sizeof(float));
    EXPECT_TRUE(bucket) << bucket.status().message();
    return bucket ? *bucket : nullptr;
  };
  std::vector<std::shared_ptr<void>> inputs;
  std::vector<std::shared_ptr<void>> outputs;
  for (int rank = 0; rank < world.size(); ++rank) {
    inputs.push_back(allocate(rank));
    outputs.push_back(rank == 1 ? inputs.back() : allocate(rank));  // rank 1's takes the input's place
    ASSERT_TRUE(inputs.back() && outputs.back());
  }
  for (int step = 0; step < 8; ++step) {
    std::vector<TicketPtr> tickets;
    for (int rank = 0; rank < world.size(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      auto* data = static_cast<float*>(inputs[r].get());
      std::fill(data, data + kElements, static_cast<float>(rank + 1 + step));
      Request request;
      request.name = "gradient";
      Tensor input;
      input.data = data;
      input.shape = {kElements};
      Tensor output = input;
      output.data = outputs[r].get();
      request.tensors.push_back({input, output});
      tickets.push_back(world.submit(rank, request));
    }
    world.settle();
    for (int rank = 0; rank < world.size(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      ASSERT_TRUE(tickets[r]->is_done() && tickets[r]->status());
      const auto* result = static_cast<float*>(outputs[r].get());
      const float sum = static_cast<float>(world.size() * (world.size() + 1) / 2 + world.size() * step);
      EXPECT_EQ(std::count(result, result + kElements, sum), static_cast<std::ptrdiff_t>(kElements));
      if (rank != 1) {
        const auto* data = static_cast<float*>(inputs[r].get());
        EXPECT_EQ(std::count(data, data + kElements, static_cast<float>(rank + 1 + step)),
                  static_cast<std::ptrdiff_t>(kElements));
      }
      world.wait(rank, *tickets[r]);
    }
  }
  if (world.size() > 1) {
    EXPECT_GT(world.engine(0).replay_counters().direct_bytes, 0u);
    EXPECT_EQ(world.engine(0).counters().direct_bytes + world.engine(0).replay_counters().direct_bytes,
              world.engine(0).counters().bytes_reduced);
  }
}

}  // namespace
}  // namespace ronde::engine
