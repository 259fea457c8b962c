// One world in a process, moved by hand: agreement, execution, mismatch, deadlines, stalls. Its end: engine_end_test.
#include "engine/core/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "support/effort.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using test::inputs;
using test::LocalWorld;
using test::Vectors;
using test::with_timeout;
using testing::AllOf;
using testing::HasSubstr;

class Worlds : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Worlds, testing::Values(1, 2, 3, 5, 8));

TEST_P(Worlds, AllreduceOfEverySize) {
  LocalWorld world(GetParam());
  const float sum = static_cast<float>(world.size() * (world.size() + 1) / 2);
  for (const std::size_t elements : {0u, 1u, 3u, 14u, 2047u, 2048u, 2049u, 16384u, 65536u, 65537u, 400001u}) {
    Vectors values = inputs(world.size(), elements);
    std::vector<TicketPtr> tickets;
    for (int rank = 0; rank < world.size(); ++rank) {
      tickets.push_back(world.submit(rank, test::allreduce("x", values[static_cast<std::size_t>(rank)])));
    }
    world.settle();
    for (int rank = 0; rank < world.size(); ++rank) {
      const TicketPtr& ticket = tickets[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(ticket->is_done()) << elements;
      EXPECT_TRUE(ticket->status()) << ticket->status().message();
      EXPECT_EQ(values[static_cast<std::size_t>(rank)], std::vector<float>(elements, sum));
      world.wait(rank, *ticket);
    }
  }
}

TEST_P(Worlds, AverageMinMaxProduct) {
  LocalWorld world(GetParam());
  float product = 1;
  for (int rank = 1; rank <= world.size(); ++rank) {
    product *= static_cast<float>(rank);
  }
  const std::vector<std::pair<ReduceOp, float>> cases = {{ReduceOp::average, static_cast<float>(world.size() + 1) / 2},
                                                         {ReduceOp::min, 1},
                                                         {ReduceOp::max, static_cast<float>(world.size())},
                                                         {ReduceOp::product, product}};
  for (const auto& [op, expected] : cases) {
    Vectors values = inputs(world.size(), 5);
    for (int rank = 0; rank < world.size(); ++rank) {
      world.submit(rank, test::allreduce(std::string(reduce_op_name(op)), values[static_cast<std::size_t>(rank)], op));
    }
    world.settle();
    for (const auto& each : values) {
      EXPECT_EQ(each, std::vector<float>(5, expected)) << reduce_op_name(op);
    }
  }
}

TEST_P(Worlds, BroadcastAllgatherBarrier) {
  LocalWorld world(GetParam());
  const int root = world.size() - 1;
  Vectors cast = inputs(world.size(), 7);
  Vectors parts;
  std::vector<float> expected;
  for (int rank = 0; rank < world.size(); ++rank) {
    parts.emplace_back(static_cast<std::size_t>(rank * 2), static_cast<float>(rank));  // rank 0 gives no rows
    expected.insert(expected.end(), parts.back().begin(), parts.back().end());
  }
  std::vector<TicketPtr> gathered;
  std::vector<TicketPtr> barriers;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    world.submit(rank, test::broadcast("cast", cast[index], root));
    gathered.push_back(world.submit(rank, test::allgather("gather", parts[index])));
    if (rank < root) {
      barriers.push_back(world.submit(rank, test::barrier("barrier")));
    }
  }
  world.settle();
  for (const TicketPtr& ticket : barriers) {
    EXPECT_FALSE(ticket->is_done()) << "a barrier waits for the last rank";
  }
  world.submit(root, test::barrier("barrier"));
  world.settle();
  for (const TicketPtr& ticket : barriers) {
    EXPECT_TRUE(ticket->is_done());
  }
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(cast[static_cast<std::size_t>(rank)], std::vector<float>(7, static_cast<float>(root + 1)));
    const TicketPtr& ticket = gathered[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(ticket->is_done());
    const OwnedOutput& output = ticket->results().owned_outputs().at(0);
    EXPECT_EQ(output.shape, Shape{static_cast<std::int64_t>(expected.size())});
    const auto* data = reinterpret_cast<const float*>(output.data.get());
    EXPECT_EQ(std::vector<float>(data, data + expected.size()), expected);
  }
}

std::vector<float> output_of(const Ticket& ticket, std::size_t index = 0) {
  const OwnedOutput& output = ticket.results().owned_outputs().at(index);
  const auto* data = reinterpret_cast<const float*>(output.data.get());
  return {data, data + output.shape.front()};
}

TEST_P(Worlds, AlltoallAndReducescatterMakeTheirOutputs) {
  LocalWorld world(GetParam());
  const auto size = static_cast<std::size_t>(world.size());
  // Rank r sends r + 1 values to rank 0, r + 2 to rank 1, ...; and reduces size + 1 values, so that rank 0 gets two.
  Vectors outgoing(size);
  Vectors reduced = inputs(world.size(), size + 1);
  std::vector<TicketPtr> sent;
  std::vector<TicketPtr> scattered;
  for (std::size_t rank = 0; rank < size; ++rank) {
    Request request;
    for (std::size_t to = 0; to < size; ++to) {
      outgoing[rank].insert(outgoing[rank].end(), rank + to + 1, static_cast<float>(100 * rank + to));
      request.splits.push_back(static_cast<std::int64_t>(rank + to + 1));
    }
    const std::vector<std::int64_t> splits = request.splits;
    request = test::allgather("exchange", outgoing[rank]);
    request.kind = OpKind::alltoall;
    request.splits = splits;
    sent.push_back(world.submit(static_cast<int>(rank), request));
    request = test::allreduce("scatter", reduced[rank]);
    request.kind = OpKind::reducescatter;
    scattered.push_back(world.submit(static_cast<int>(rank), request));
  }
  world.settle();
  const float sum = static_cast<float>(size * (size + 1)) / 2;
  for (std::size_t rank = 0; rank < size; ++rank) {
    ASSERT_TRUE(sent[rank]->is_done() && sent[rank]->status()) << sent[rank]->status().message();
    std::vector<float> expected;
    for (std::size_t from = 0; from < size; ++from) {
      expected.insert(expected.end(), rank + from + 1, static_cast<float>(100 * from + rank));
      EXPECT_EQ(sent[rank]->results().received_splits().at(from), static_cast<std::int64_t>(rank + from + 1));
    }
    EXPECT_EQ(output_of(*sent[rank]), expected);
    ASSERT_TRUE(scattered[rank]->is_done() && scattered[rank]->status()) << scattered[rank]->status().message();
    EXPECT_EQ(output_of(*scattered[rank]), std::vector<float>(rank == 0 ? 2 : 1, sum));
  }
}

TEST_P(Worlds, ReduceGatherScatterByTheRoot) {
  LocalWorld world(GetParam());
  const auto size = static_cast<std::size_t>(world.size());
  for (std::size_t root = 0; root < size; ++root) {
    Vectors reduced = inputs(world.size(), 5);
    Vectors parts(size);   // rank r has r values
    Vectors spread(size);  // the root has 1 value for rank 0, 2 for rank 1, ...; the others have one that nobody reads
    std::vector<float> all;
    std::vector<TicketPtr> gathers;
    std::vector<TicketPtr> scatters;
    for (std::size_t rank = 0; rank < size; ++rank) {
      const std::string at = std::to_string(root);
      Request request = test::allreduce("reduce " + at, reduced[rank]);
      request.kind = OpKind::reduce;
      request.root = static_cast<int>(root);
      world.submit(static_cast<int>(rank), request);
      parts[rank].assign(rank, static_cast<float>(rank));
      all.insert(all.end(), parts[rank].begin(), parts[rank].end());
      request = test::allgather("gather " + at, parts[rank]);
      request.kind = OpKind::gather;
      request.root = static_cast<int>(root);
      gathers.push_back(world.submit(static_cast<int>(rank), request));
      spread[rank] = {-1.0f};
      std::vector<std::int64_t> splits;
      if (rank == root) {
        spread[rank].clear();
        for (std::size_t to = 0; to < size; ++to) {
          spread[rank].insert(spread[rank].end(), to + 1, static_cast<float>(to));
          splits.push_back(static_cast<std::int64_t>(to + 1));
        }
      }
      request = test::allgather("scatter " + at, spread[rank]);
      request.kind = OpKind::scatter;
      request.root = static_cast<int>(root);
      request.splits = splits;
      scatters.push_back(world.submit(static_cast<int>(rank), request));
    }
    world.settle();
    const float sum = static_cast<float>(size * (size + 1)) / 2;
    for (std::size_t rank = 0; rank < size; ++rank) {
      EXPECT_EQ(reduced[rank], std::vector<float>(5, rank == root ? sum : static_cast<float>(rank + 1)));
      ASSERT_TRUE(gathers[rank]->is_done() && gathers[rank]->status()) << gathers[rank]->status().message();
      EXPECT_EQ(output_of(*gathers[rank]), rank == root ? all : std::vector<float>());
      ASSERT_TRUE(scatters[rank]->is_done() && scatters[rank]->status()) << scatters[rank]->status().message();
      EXPECT_EQ(output_of(*scatters[rank]), std::vector<float>(rank + 1, static_cast<float>(rank)));
    }
  }
}

TEST_P(Worlds, SplitsThatDoNotFitAreRefusedAtOnce) {
  LocalWorld world(GetParam());
  std::vector<float> values(static_cast<std::size_t>(world.size()) + 1);
  Request request = test::allgather("x", values);
  request.kind = OpKind::alltoall;
  if (world.size() > 1) {
    EXPECT_EQ(world.try_submit(0, request).code(), Code::invalid_argument) << "does not divide";
  }
  request.splits.assign(values.size(), 1);
  EXPECT_EQ(world.try_submit(0, request).code(), Code::invalid_argument) << "one too many";
  request.splits.assign(static_cast<std::size_t>(world.size()), 1);
  EXPECT_EQ(world.try_submit(0, request).code(), Code::invalid_argument) << "too few rows";
  request.splits.front() = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(world.try_submit(0, request).code(), Code::invalid_argument);
  request.splits.front() = -1;
  EXPECT_EQ(world.try_submit(0, request).code(), Code::invalid_argument);
  request.splits.assign(static_cast<std::size_t>(world.size()), 1);
  request.splits.front() = 2;
  request.kind = OpKind::scatter;
  request.root = world.size() - 1;
  if (world.size() > 1) {
    std::vector<float> one(1);
    Request elsewhere = test::allgather("y", one);
    elsewhere.kind = OpKind::scatter;
    elsewhere.root = request.root;
    EXPECT_TRUE(world.try_submit(0, elsewhere)) << "only the root's rows are cut";
  }
  request.splits.front() = 3;
  EXPECT_EQ(world.try_submit(request.root, request).code(), Code::invalid_argument) << "too many rows";
  request.splits.front() = 2;
  request.kind = OpKind::alltoall;
  EXPECT_TRUE(world.try_submit(0, request)) << "a refused name is not taken";
}

// Forty tensors, another order on every rank and every step, ranks stepped in random order: all right, every time.
TEST_P(Worlds, AnyOrderOfSubmissionAndAnyInterleaving) {
  for (int seed = 0; seed < effort(20); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    LocalWorld world(GetParam());
    constexpr int kTensors = 40;
    for (int step = 0; step < 3; ++step) {
      std::vector<Vectors> values;  // by tensor, rank
      for (int t = 0; t < kTensors; ++t) {
        values.push_back(inputs(world.size(), static_cast<std::size_t>(t * t)));
        for (auto& each : values.back()) {
          for (float& value : each) {
            value *= static_cast<float>(t + 1);
          }
        }
      }
      std::vector<std::pair<int, TicketPtr>> tickets;
      std::vector<std::vector<int>> orders(static_cast<std::size_t>(world.size()));
      for (auto& order : orders) {
        order.resize(kTensors);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
      }
      for (int i = 0; i < kTensors; ++i) {
        for (int rank = 0; rank < world.size(); ++rank) {
          const int t = orders[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)];
          tickets.emplace_back(
              rank,
              world.submit(rank, test::allreduce("t" + std::to_string(t),
                                                 values[static_cast<std::size_t>(t)][static_cast<std::size_t>(rank)])));
          if (random() % 3 == 0) {
            world.step(static_cast<int>(random() % static_cast<unsigned>(world.size())));
          }
        }
      }
      world.settle(random);
      const int sum = world.size() * (world.size() + 1) / 2;
      for (int t = 0; t < kTensors; ++t) {
        for (const auto& each : values[static_cast<std::size_t>(t)]) {
          ASSERT_EQ(each, std::vector<float>(static_cast<std::size_t>(t * t), static_cast<float>(sum * (t + 1))));
        }
      }
      for (auto& [rank, ticket] : tickets) {
        ASSERT_TRUE(ticket->is_done());
        world.wait(rank, *ticket);
      }
    }
  }
}

TEST(Engine, SmallTensorsAreFused) {
  LocalWorld world(2);
  Vectors a = inputs(2, 10);
  Vectors b = inputs(2, 20);
  for (int rank : {0, 1}) {
    world.submit(rank, test::allreduce("a", a[static_cast<std::size_t>(rank)]));
    world.submit(rank, test::allreduce("b", b[static_cast<std::size_t>(rank)]));
  }
  world.settle();
  EXPECT_EQ(world.engine(0).counters().plans, 1u);
  EXPECT_EQ(world.engine(0).counters().fused_tensors, 2u);
  EXPECT_EQ(b[1], std::vector<float>(20, 3));
}

TEST(Engine, AGroupIsOneTicket) {
  LocalWorld world(2);
  Vectors small = inputs(2, 4);
  Vectors large = inputs(2, 100000);
  std::vector<TicketPtr> tickets;
  for (int rank : {0, 1}) {
    const auto index = static_cast<std::size_t>(rank);
    Request request = test::allreduce("group", small[index]);
    request.tensors.push_back(test::allreduce("x", large[index]).tensors.front());
    tickets.push_back(world.submit(rank, std::move(request)));
  }
  world.settle();
  EXPECT_TRUE(tickets[0]->is_done() && tickets[1]->is_done());
  EXPECT_EQ(small[0], std::vector<float>(4, 3));
  EXPECT_EQ(large[1], std::vector<float>(100000, 3));
  EXPECT_EQ(world.engine(1).counters().plans, 2u);
}

TEST(Engine, ASecondSubmitOfATakenNameIsRefusedAtOnce) {
  LocalWorld world(2);
  std::vector<float> values(3);
  const TicketPtr first = world.submit(0, test::allreduce("x", values));
  EXPECT_EQ(world.try_submit(0, test::allreduce("x", values)).code(), Code::duplicate_name);
  std::vector<float> others(3);
  world.submit(1, test::allreduce("x", others));
  world.settle();
  ASSERT_TRUE(first->is_done());
  EXPECT_EQ(world.try_submit(0, test::allreduce("x", values)).code(), Code::duplicate_name) << "done, not waited for";
  world.wait(0, *first);
  EXPECT_TRUE(world.try_submit(0, test::allreduce("x", values)));
}

TEST(Engine, OfManySubmittedAtOnceThoseBeforeARefusedOneAreUnderWay) {
  LocalWorld world(1);
  Vectors values = inputs(5, 3);
  const TicketPtr taken = world.submit(0, test::allreduce("3", values[4]));
  std::vector<TicketPtr> tickets;
  for (std::size_t i = 1; i < 5; ++i) {
    tickets.push_back(std::make_shared<Ticket>(test::allreduce(std::to_string(i), values[i - 1])));
    tickets.back()->keep_name();
  }
  std::size_t submitted = 9;
  const Status status = world.engine(0).submit_again(tickets, submitted);
  EXPECT_EQ(status.code(), Code::duplicate_name);
  EXPECT_THAT(status.message(), HasSubstr("'3'"));
  EXPECT_EQ(submitted, 2u);
  EXPECT_EQ(world.engine(0).counters().requests, 3u);
  world.settle();
  EXPECT_TRUE(taken->is_done());
  EXPECT_TRUE(tickets[0]->is_done() && tickets[1]->is_done());
  EXPECT_FALSE(tickets[2]->is_done() || tickets[3]->is_done()) << "the caller says so of those";
  EXPECT_FALSE(world.engine(0).has_outstanding());
}

TEST(Engine, AMismatchIsTheSameErrorEverywhereAndTheJobGoesOn) {
  LocalWorld world(3);
  for (int round = 0; round < 3; ++round) {
    Vectors bad = {std::vector<float>(2), std::vector<float>(3), std::vector<float>(2)};
    Vectors good = inputs(3, 4);
    std::vector<TicketPtr> tickets;
    std::vector<TicketPtr> good_tickets;
    for (int rank = 0; rank < 3; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      tickets.push_back(world.submit(rank, test::allreduce("x", bad[index])));
      good_tickets.push_back(world.submit(rank, test::allreduce("good", good[index])));
    }
    world.settle();
    for (int rank = 0; rank < 3; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      ASSERT_TRUE(tickets[index]->is_done());
      EXPECT_EQ(tickets[index]->status().code(), Code::mismatch);
      EXPECT_EQ(tickets[index]->status().message(), tickets[0]->status().message());
      EXPECT_EQ(tickets[index]->status().tensor(), "x");
      EXPECT_EQ(good[index], std::vector<float>(4, 6));
      world.wait(rank, *tickets[index]);
      world.wait(rank, *good_tickets[index]);
    }
  }
}

TEST(Engine, WhatIsUnknownIsRefusedAtOnce) {
  LocalWorld world(1);
  std::vector<float> values(3);
  Request request = test::allreduce("x", values);
  request.kind = static_cast<OpKind>(99);
  EXPECT_EQ(world.try_submit(0, request).code(), Code::invalid_argument);
  request.kind = OpKind::allreduce;
  EXPECT_TRUE(world.try_submit(0, request)) << "a refused name is not taken";
}

// ---- Deadlines and stalls

TEST(Engine, TimeIsUpOnAllRanksAndTheLateOneOwesTheError) {
  LocalWorld world(3);
  Vectors values = inputs(3, 2);
  std::vector<TicketPtr> tickets;
  for (int rank : {0, 1}) {
    tickets.push_back(
        world.submit(rank, with_timeout(test::allreduce("x", values[static_cast<std::size_t>(rank)]), 5 * kSecond)));
  }
  world.settle();
  EXPECT_EQ(world.engine(0).next_timer(), world.clock().now() + 5 * kSecond);
  world.clock().advance(5 * kSecond);
  world.settle();
  for (const TicketPtr& ticket : tickets) {
    ASSERT_TRUE(ticket->is_done());
    EXPECT_EQ(ticket->status().code(), Code::timed_out);
    EXPECT_EQ(ticket->status().failed_rank(), 2);
    EXPECT_THAT(ticket->status().message(), HasSubstr("rank 2 did not submit it"));
  }
  const TicketPtr late = world.submit(2, test::allreduce("x", values[2]));
  world.settle();
  ASSERT_TRUE(late->is_done()) << "it must not meet the others' next one";
  EXPECT_EQ(late->status().message(), tickets[0]->status().message());
  world.wait(2, *late);
  for (int rank : {0, 1}) {
    world.wait(rank, *tickets[static_cast<std::size_t>(rank)]);
  }
  values = inputs(3, 2);
  for (int rank = 0; rank < 3; ++rank) {
    world.submit(rank, test::allreduce("x", values[static_cast<std::size_t>(rank)]));
  }
  world.settle();
  EXPECT_EQ(values[2], std::vector<float>(2, 6));
}

TEST(Engine, AStallIsReportedAgainAndAgainAndKillsNobody) {
  Settings settings;
  settings.stall = 60 * kSecond;
  LocalWorld world(2, settings);
  Vectors values = inputs(2, 2);
  const TicketPtr ticket = world.submit(1, test::allreduce("x", values[1]));
  for (int i = 0; i < 2; ++i) {
    world.settle();
    world.clock().advance(60 * kSecond);
    world.settle();
    const auto lines = world.log().take();
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_THAT(lines[0], AllOf(HasSubstr("rank 0 warning"), HasSubstr("'x' waits for rank 0; rank 1 has submitted")));
  }
  EXPECT_FALSE(ticket->is_done());
  world.submit(0, test::allreduce("x", values[0]));
  world.settle();
  EXPECT_EQ(values[0], std::vector<float>(2, 3));
}

TEST(Engine, AStallThatNobodyWantsToHearOfSetsNoTimer) {
  Settings settings;
  settings.stall = 60 * kSecond;
  LocalWorld world(2, settings);
  std::vector<float> values(2);
  set_log_level(LogLevel::error);
  world.submit(1, test::allreduce("x", values));
  world.settle();
  world.clock().advance(600 * kSecond);
  world.settle();
  EXPECT_GT(world.engine(0).next_timer(), world.clock().now()) << "a timer in the past is a busy loop";
  set_log_level(LogLevel::warning);
}

TEST(Engine, AGroupWithATensorThatCannotBeReducedIsRefusedWhole) {
  LocalWorld world(1);
  std::vector<float> values(4, 1);
  std::vector<float> others(4, 1);
  Request request = test::allreduce("group", values, ReduceOp::min);
  Tensor complex = request.tensors.front().input;
  complex.data = others.data();
  complex.dtype = DType::complex64;
  complex.shape = {2};
  request.tensors.insert(request.tensors.begin(), {complex, complex});
  EXPECT_EQ(world.try_submit(0, request).code(), Code::not_implemented);
}

}  // namespace
}  // namespace ronde::engine
