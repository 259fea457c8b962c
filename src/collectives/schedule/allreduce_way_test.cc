// Which schedule an all-reduce takes between hosts, with the limits that are built in, and that few ranks, and the
// ranks of two hosts in order, have the bits of one host.
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/schedule/allreduce_way.h"
#include "collectives/schedule/hierarchical_schedule.h"
#include "collectives/schedule/testing/message_world.h"
#include "reduce/half.h"

namespace ronde::collectives {
namespace {

using messages::MessageLimits;

const RankLayout kTwoOfTwo({0, 0, 2, 2});
const RankLayout kTwoOfThree({0, 0, 0, 3, 3, 3});
const RankLayout kMixed({0, 1, 0, 1, 0, 1});

bool goes_by_hosts(const RankLayout& layout, std::size_t bytes, const reduce::Reduction& reduction = {}) {
  const bool first = messages::allreduce_way(0, layout, {}, bytes, reduction).hears_through_others;
  for (int rank = 1; rank < layout.ranks(); ++rank) {
    EXPECT_EQ(messages::allreduce_way(rank, layout, {}, bytes, reduction).hears_through_others, first);
  }
  return first;
}

TEST(AllreduceWay, OfFewRanksKeepsTheirOrder) {
  const std::size_t small = MessageLimits().one_turn;
  EXPECT_FALSE(goes_by_hosts(kTwoOfTwo, small)) << "it has fewer turns";
  EXPECT_TRUE(goes_by_hosts(kTwoOfTwo, small + 1)) << "a chain";
  EXPECT_TRUE(goes_by_hosts(kTwoOfTwo, small + 1, {.dtype = DType::int32})) << "order means nothing";
  EXPECT_TRUE(goes_by_hosts(kTwoOfTwo, small + 1, {.dtype = DType::bfloat16, .op = ReduceOp::max}));
  EXPECT_FALSE(goes_by_hosts(kTwoOfTwo, small + 1, {.dtype = DType::bfloat16}));
  EXPECT_FALSE(goes_by_hosts(kTwoOfTwo, small + 1, {.dtype = DType::float16, .op = ReduceOp::max, .prescale = 0.3}));
  EXPECT_FALSE(goes_by_hosts(RankLayout({0, 1, 1, 0}), small + 1)) << "its hosts are mixed";
  EXPECT_FALSE(goes_by_hosts(RankLayout({0, 0, 2, 3}), small + 1)) << "three hosts";
  EXPECT_FALSE(goes_by_hosts(RankLayout::apart(2), small + 1));
}

TEST(AllreduceWay, OfMoreRanksIsByHosts) {
  for (const RankLayout& layout : {kTwoOfThree, kMixed}) {
    for (const std::size_t bytes : {std::size_t{4}, MessageLimits().one_turn, std::size_t{1} << 20}) {
      EXPECT_TRUE(goes_by_hosts(layout, bytes));
      EXPECT_TRUE(goes_by_hosts(layout, bytes, {.dtype = DType::bfloat16}));
      EXPECT_FALSE(goes_by_hosts(layout, bytes, {.dtype = DType::float8_e4m3}));
    }
  }
}

/// What the combinations of a hierarchical all-reduce make of float16 values, one for each rank.
double by_hosts(const RankLayout& layout, const reduce::Reduction& reduction, const std::vector<float>& values) {
  const messages::AllreduceWay way = messages::allreduce_way(0, layout, {}, std::size_t{1} << 20, reduction);
  EXPECT_EQ(way.combinations.size(), 2u);
  const auto reduce = [](const Combination& how, const std::vector<std::uint16_t>& inputs) {
    std::vector<const void*> pointers;
    for (const std::uint16_t& input : inputs) {
      pointers.push_back(&input);
    }
    std::uint16_t result = 0;
    reduce::Reducer(how.reduction, pointers.size(), how.divisor)(reduce::DefaultArithmetic(), pointers.data(), 1,
                                                                 &result);
    return result;
  };
  std::vector<std::uint16_t> of_hosts;
  for (int rank = 0; rank < layout.ranks();) {
    std::vector<std::uint16_t> inputs;
    for (const int host = layout.host_of(rank); rank < layout.ranks() && layout.host_of(rank) == host; ++rank) {
      inputs.push_back(reduce::narrow_float16(values[static_cast<std::size_t>(rank)]));
    }
    of_hosts.push_back(reduce(way.combinations[0], inputs));
  }
  return reduce::widen_float16(reduce(way.combinations[1], of_hosts));
}

/// Partial sums of a host were rounded to float16 before the scale: inf, or 20 % too much.
TEST(AllreduceWay, ScalesOfFloat16KeepTheRangeOfTheResult) {
  const RankLayout layout({0, 0, 0, 3, 3});
  const DType half = DType::float16;
  const std::vector<float> large(5, 30000.0F);
  EXPECT_NEAR(by_hosts(layout, {half, ReduceOp::sum, 1.0, 0.2}, large), 30000.0, 32.0);
  EXPECT_NEAR(by_hosts(layout, {half, ReduceOp::average, 5.0, 0.2}, large), 30000.0, 32.0);
  EXPECT_NEAR(by_hosts(layout, {half, ReduceOp::average, 1.0, 1.0}, large), 30000.0, 32.0);
  const std::vector<float> small(5, 0.01F);
  EXPECT_NEAR(by_hosts(layout, {half, ReduceOp::sum, 1e-6, 1e6}, small), 0.05, 1e-4);
  EXPECT_NEAR(by_hosts(layout, {half, ReduceOp::average, 1e-6, 1e6}, small), 0.01, 2e-5);
  for (const ReduceOp op : {ReduceOp::product, ReduceOp::max}) {
    EXPECT_FALSE(goes_by_hosts(layout, std::size_t{1} << 20, {half, op, 1.0, 1e-4}));
    EXPECT_TRUE(goes_by_hosts(layout, std::size_t{1} << 20, {half, op}));
  }
}

/// Every test's jobs say what all ranks give in one go, in order.
TEST(AllreduceWay, BetweenTwoHostsHasTheBitsOfOne) {
  const auto turn = static_cast<std::int64_t>(MessageLimits().one_turn / sizeof(float));
  for (const std::vector<int>& first_of :
       std::vector<std::vector<int>>{{0, 0, 2, 2}, {0, 0, 0, 3, 3, 3}, {0, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 4, 4}}) {
    std::vector<Job> jobs;
    for (const std::int64_t elements : {std::int64_t{0}, std::int64_t{1}, turn - 1, turn, turn + 1, 40 * turn + 3}) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::product}) {
        JobSpec spec;
        spec.size = static_cast<int>(first_of.size());
        spec.elements = {elements, 3};
        spec.reduce_op = op;
        spec.in_place = elements % 2 == 0;
        spec.prescale = op == ReduceOp::average ? 0.37 : 1.0;
        jobs.push_back(make_job(spec));
      }
    }
    MessageWorld world(RankLayout(first_of), 3, MessageLimits{});
    EXPECT_EQ(world.run_threads(std::move(jobs)), "");
  }
}

/// With slices of more than the least, of one message each and of some, the last of them shorter.
TEST(AllreduceWay, BetweenManyHostsGivesWhatItShould) {
  std::vector<int> first_of;
  for (int rank = 0; rank < 2 * 12 + 1; ++rank) {
    first_of.push_back(std::min(rank / 2, 11) * 2);  // the last host has three
  }
  const MessageLimits limits{.chunk = std::size_t{1} << 10};
  constexpr std::int64_t kLargest = std::int64_t{300} << 10;
  const auto cuts = [&](std::int64_t elements) {
    return hierarchical_slice(static_cast<std::size_t>(elements) * sizeof(float), 2, 12, limits.chunk) / limits.chunk;
  };
  EXPECT_EQ(cuts(1'000), 1u);
  EXPECT_GT(cuts(kLargest), 8u);
  std::vector<Job> jobs;
  for (const std::int64_t elements :
       {std::int64_t{1'000}, std::int64_t{9'000}, std::int64_t{33'001}, kLargest, kLargest + 1}) {
    JobSpec spec;
    spec.size = static_cast<int>(first_of.size());
    spec.elements = {elements};
    spec.in_place = elements % 2 == 0;
    spec.first_of = first_of;
    jobs.push_back(make_job(spec));
  }
  MessageWorld world(RankLayout(first_of), 3, limits);
  EXPECT_EQ(world.run_threads(std::move(jobs)), "");
}

}  // namespace
}  // namespace ronde::collectives
