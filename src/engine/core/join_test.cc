// Join: ranks that run out of data, while the others go on. What agreement does with it: agreement/member_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "reduce/neutral.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using test::LocalWorld;
using testing::HasSubstr;

Request join() {
  Request request;
  request.kind = OpKind::join;
  request.name = "join";
  return request;
}

int last_of(const TicketPtr& ticket) {
  EXPECT_TRUE(ticket->is_done());
  EXPECT_TRUE(ticket->status()) << ticket->status().message();
  std::int32_t last = -1;
  std::memcpy(&last, ticket->request().tensors.at(0).output.data, sizeof last);
  return last;
}

class Joins : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Joins, testing::Values(1, 2, 3, 5));

TEST_P(Joins, RanksWithDifferentNumbersOfSteps) {
  // Rank r has 10 steps and r more, enough to reach replay; twice, so that replay comes back after a join.
  LocalWorld world(GetParam());
  const int size = world.size();
  for (int round = 0; round < 2; ++round) {
    std::vector<TicketPtr> joins(static_cast<std::size_t>(size));
    for (int step = 0; step < 10 + size; ++step) {
      test::Vectors values = test::inputs(size, step % 3 == 0 ? 5 : 70000);
      std::vector<TicketPtr> tickets(static_cast<std::size_t>(size));
      float expected = 0;
      for (int rank = 0; rank < size; ++rank) {
        const auto index = static_cast<std::size_t>(rank);
        if (step < 10 + rank) {
          tickets[index] = world.submit(rank, test::allreduce("x", values[index]));
          expected += static_cast<float>(rank + 1);
        } else if (!joins[index]) {
          joins[index] = world.submit(rank, join());
        }
      }
      world.settle();
      for (int rank = 0; rank < size; ++rank) {
        const auto index = static_cast<std::size_t>(rank);
        if (tickets[index]) {
          ASSERT_TRUE(tickets[index]->is_done()) << "step " << step;
          ASSERT_TRUE(tickets[index]->status()) << tickets[index]->status().message();
          EXPECT_EQ(values[index].front(), expected) << "step " << step;
          EXPECT_EQ(values[index].back(), expected);
          world.wait(rank, *tickets[index]);
        }
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(last_of(joins[static_cast<std::size_t>(rank)]), size - 1);
      world.wait(rank, *joins[static_cast<std::size_t>(rank)]);
    }
  }
}

TEST(Join, OneWhoHasJoinedChangesNoResult) {
  LocalWorld world(3);
  const TicketPtr joined = world.submit(1, join());
  const std::vector<std::pair<ReduceOp, float>> cases = {{ReduceOp::sum, 4},
                                                         {ReduceOp::average, 4.0f / 3},
                                                         {ReduceOp::min, 1},
                                                         {ReduceOp::max, 3},
                                                         {ReduceOp::product, 3}};
  for (const auto& [op, expected] : cases) {
    test::Vectors values = test::inputs(3, 9);
    for (int rank : {0, 2}) {
      world.submit(rank, test::allreduce(std::string(reduce_op_name(op)), values[static_cast<std::size_t>(rank)], op));
    }
    world.settle();
    EXPECT_EQ(values[0], std::vector<float>(9, expected)) << reduce_op_name(op);
    EXPECT_EQ(values[2], values[0]);
  }
  EXPECT_FALSE(joined->is_done());
}

Request of_kind(OpKind kind, std::vector<float>& values) {
  Request request = test::allreduce("x", values);
  request.kind = kind;
  if (makes_outputs(kind)) {
    request.tensors.front().output = {};
  }
  return request;
}

void expect_refused(const Ticket& ticket, const std::string& who) {
  ASSERT_TRUE(ticket.is_done());
  EXPECT_EQ(ticket.status().code(), Code::mismatch);
  EXPECT_THAT(ticket.status().message(),
              HasSubstr("cannot be done while " + who + ": only allreduce and barrier go on without a rank"));
}

TEST(Join, WhatEachRankHasAPartInFailsOnAllThatCallIt) {
  const std::vector<OpKind> kinds = {OpKind::allgather,     OpKind::broadcast, OpKind::alltoall,
                                     OpKind::reducescatter, OpKind::reduce,    OpKind::gather,
                                     OpKind::scatter,       OpKind::scan,      OpKind::exscan};
  for (const bool joins_first : {true, false}) {
    for (OpKind kind : kinds) {
      SCOPED_TRACE(op_name(kind));
      LocalWorld world(4);
      std::vector<std::vector<float>> values(4, std::vector<float>(4, 7));
      std::vector<TicketPtr> joins(4);
      const auto join_some = [&] {
        joins[1] = world.submit(1, join());
        joins[3] = world.submit(3, join());
        world.settle();
      };
      if (joins_first) {
        join_some();
      }
      const TicketPtr first = world.submit(0, of_kind(kind, values[0]));
      const TicketPtr second = world.submit(2, of_kind(kind, values[2]));
      if (!joins_first) {
        join_some();
      }
      world.settle();
      expect_refused(*first, "ranks 1, 3 have joined");
      expect_refused(*second, "ranks 1, 3 have joined");
      EXPECT_FALSE(joins[1]->is_done());
      world.wait(0, *first);
      world.wait(2, *second);
      for (int rank : {2, 0}) {
        joins[static_cast<std::size_t>(rank)] = world.submit(rank, join());
        world.settle();
      }
      for (int rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(last_of(joins[static_cast<std::size_t>(rank)]), 0);
        world.wait(rank, *joins[static_cast<std::size_t>(rank)]);
      }
      std::vector<TicketPtr> after;
      for (int rank = 0; rank < 4; ++rank) {
        after.push_back(world.submit(rank, of_kind(kind, values[static_cast<std::size_t>(rank)])));
      }
      world.settle();
      for (const TicketPtr& ticket : after) {
        ASSERT_TRUE(ticket->is_done()) << "the job stays usable";
        EXPECT_TRUE(ticket->status()) << ticket->status().message();
      }
    }
  }
}

TEST(Join, ABarrierGoesOn) {
  LocalWorld world(3);
  world.submit(2, join());
  world.submit(0, test::barrier("all"));
  const TicketPtr passed = world.submit(1, test::barrier("all"));
  world.settle();
  ASSERT_TRUE(passed->is_done());
  EXPECT_TRUE(passed->status()) << passed->status().message();
}

TEST(Join, AReductionWithoutANeutralValueFailsOnTheOthers) {
  LocalWorld world(3);
  const TicketPtr joined = world.submit(1, join());
  std::vector<std::vector<float>> values(3, std::vector<float>(4));
  Request scaled = test::allreduce("scaled", values[0], ReduceOp::product);
  scaled.prescale = 2;
  const TicketPtr product = world.submit(0, scaled);
  scaled.tensors = test::allreduce("scaled", values[2]).tensors;
  world.submit(2, scaled);
  world.settle();
  ASSERT_TRUE(product->is_done());
  EXPECT_THAT(product->status().message(),
              HasSubstr("cannot be done while rank 1 has joined: with this prescale no value is neutral"));
  EXPECT_FALSE(joined->is_done());
  world.submit(0, join());
  const TicketPtr last = world.submit(2, join());
  world.settle();
  EXPECT_EQ(last_of(joined), last_of(last));
}

TEST(Join, NothingIsSubmittedMeanwhile) {
  LocalWorld world(2);
  world.submit(0, join());
  std::vector<float> values(1);
  const TicketPtr after = world.submit(0, test::allreduce("x", values));
  Request again = join();
  again.name = "again";
  const TicketPtr twice = world.submit(0, again);
  world.settle();
  ASSERT_TRUE(after->is_done());
  EXPECT_THAT(after->status().message(), HasSubstr("submitted after join"));
  ASSERT_TRUE(twice->is_done());
  EXPECT_EQ(twice->status().code(), Code::duplicate_name);
}

TEST(Join, ANameThatNobodyHasWaitedForYetIsNotTakenForTheOthersRequest) {
  LocalWorld world(2);
  test::Vectors values = test::inputs(2, 3);
  world.submit(0, test::allreduce("x", values[0]));
  const TicketPtr second = world.submit(1, test::allreduce("x", values[1]));
  world.settle();
  world.submit(0, join());  // "x" is done here, and its name still taken
  world.wait(1, *second);
  values[1].assign(3, 5);
  const TicketPtr alone = world.submit(1, test::allreduce("x", values[1]));
  world.settle();
  ASSERT_TRUE(alone->is_done());
  EXPECT_TRUE(alone->status()) << alone->status().message();
  EXPECT_EQ(values[1], std::vector<float>(3, 5));
  EXPECT_EQ(values[0], std::vector<float>(3, 3)) << "what it got in its own step stays";
}

TEST(Join, ANameInUseForAMessageIsNotTakenForTheOthersRequest) {
  LocalWorld world(3);
  std::vector<float> received(3, -1);
  Request recv = test::allreduce("g", received);
  recv.kind = OpKind::recv;
  recv.root = 1;
  const TicketPtr message = world.submit(0, recv);
  world.submit(0, join());
  test::Vectors values = test::inputs(3, 3);
  world.submit(1, test::allreduce("g", values[1]));
  const TicketPtr sum = world.submit(2, test::allreduce("g", values[2]));
  world.settle();
  ASSERT_TRUE(sum->is_done());
  EXPECT_TRUE(sum->status()) << sum->status().message();
  EXPECT_EQ(values[2], std::vector<float>(3, 5));
  EXPECT_FALSE(message->is_done());
  EXPECT_EQ(received, std::vector<float>(3, -1));
}

TEST(Join, EndsWithTheJob) {
  for (const bool dies : {true, false}) {
    LocalWorld world(2);
    const TicketPtr joined = world.submit(0, join());
    world.settle();
    if (dies) {
      world.kill(1);
    } else {
      world.engine(1).begin_leave();
    }
    world.settle();
    ASSERT_TRUE(joined->is_done());
    EXPECT_EQ(joined->status().code(), dies ? Code::peer_lost : Code::peer_left);
  }
}

TEST(Neutral, ChangesNothing) {
  std::array<std::byte, 16> bytes{};
  const auto bits = [&](DType dtype, ReduceOp op) {
    reduce::fill_neutral(dtype, op, {bytes.data(), dtype_bytes(dtype)});
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), std::min<std::size_t>(8, dtype_bytes(dtype)));
    return value;
  };
  EXPECT_EQ(bits(DType::int8, ReduceOp::min), 0x7fu);
  EXPECT_EQ(bits(DType::int8, ReduceOp::max), 0x80u);
  EXPECT_EQ(bits(DType::uint8, ReduceOp::max), 0u);
  EXPECT_EQ(bits(DType::int64, ReduceOp::product), 1u);
  EXPECT_EQ(bits(DType::float16, ReduceOp::min), 0x7c00u);
  EXPECT_EQ(bits(DType::bfloat16, ReduceOp::product), 0x3f80u);
  EXPECT_EQ(bits(DType::float8_e4m3, ReduceOp::max), 0xfeu);
  EXPECT_EQ(bits(DType::int16, ReduceOp::bit_and), 0xffffu);
  EXPECT_EQ(bits(DType::boolean, ReduceOp::bit_and), 1u);
  EXPECT_EQ(bits(DType::complex64, ReduceOp::product), 0x3f800000u);
}

}  // namespace
}  // namespace ronde::engine
