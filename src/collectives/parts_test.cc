#include "collectives/parts.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ronde::collectives {
namespace {

Plan plan_of(OpKind kind, std::vector<std::vector<std::int64_t>> rows) {
  Plan plan;
  plan.kind = kind;
  plan.dtype = DType::int16;
  plan.rows = std::move(rows);
  return plan;
}

Tensor tensor(std::vector<std::int16_t>& memory, std::int64_t rows, std::int64_t columns) {
  return {memory.data(), DType::int16, {rows, columns}, {}};
}

std::vector<std::int16_t> gathered(const GatherList& list) {
  std::vector<std::int16_t> values(list.bytes() / sizeof(std::int16_t));
  list.gather(0, list.bytes(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

TEST(Parts, OfAnAlltoallLieInTheOrderOfTheRanks) {
  // Rank 1 of 2 has 1 row for rank 0 and 2 for itself; rank 0 has 3 rows for it. A row has two elements.
  std::vector<std::int16_t> input(6);
  std::iota(input.begin(), input.end(), std::int16_t{0});
  std::vector<std::int16_t> output(10, -1);
  Plan plan = plan_of(OpKind::alltoall, {{5, 3, 1, 2}});
  plan.members.push_back({"x", tensor(input, 3, 2), tensor(output, 5, 2)});
  const Parts parts(plan, 2);
  EXPECT_EQ(parts.bytes(0, 1), 3 * 2 * sizeof(std::int16_t));
  EXPECT_EQ(parts.longest(), 5 * 2 * sizeof(std::int16_t));
  EXPECT_EQ(gathered(parts.outgoing(1, 0)), (std::vector<std::int16_t>{0, 1}));
  EXPECT_EQ(gathered(parts.outgoing(1, 1)), (std::vector<std::int16_t>{2, 3, 4, 5}));
  parts.outgoing(1, 1).carry_over(0, 8);
  const std::vector<std::int16_t> received = {10, 11, 12, 13, 14, 15};
  parts.incoming(1, 0).scatter(0, 12, reinterpret_cast<const std::byte*>(received.data()));
  EXPECT_EQ(output, (std::vector<std::int16_t>{10, 11, 12, 13, 14, 15, 2, 3, 4, 5}));
}

TEST(Parts, OfAnAllgatherAreTheSameForEverybody) {
  std::vector<std::int16_t> input = {7, 8};
  std::vector<std::int16_t> output(5, -1);
  Plan plan = plan_of(OpKind::allgather, {{3, 2}});
  plan.members.push_back({"x", tensor(input, 2, 1), tensor(output, 5, 1)});
  const Parts parts(plan, 2);
  EXPECT_EQ(parts.bytes(1, 0), parts.bytes(1, 1));
  EXPECT_EQ(gathered(parts.outgoing(1, 0)), input);
  parts.outgoing(1, 1).carry_over(0, 4);
  EXPECT_EQ(output, (std::vector<std::int16_t>{-1, -1, -1, 7, 8}));
  EXPECT_EQ(parts.incoming(1, 0).segment(0).to, reinterpret_cast<std::byte*>(output.data()));
}

TEST(Parts, OfAReduceGoToTheRootOnly) {
  std::vector<std::int16_t> input = {1, 2, 3};
  std::vector<std::int16_t> output(3);
  Plan plan = plan_of(OpKind::reduce, {});
  plan.root = 1;
  plan.members.push_back({"x", tensor(input, 3, 1), tensor(output, 3, 1)});
  const Parts parts(plan, 2);
  EXPECT_EQ(parts.bytes(0, 1), 6u);
  EXPECT_EQ(parts.bytes(1, 0), 0u);
  EXPECT_EQ(parts.outgoing(0, 0).bytes(), 0u);
}

}  // namespace
}  // namespace ronde::collectives
