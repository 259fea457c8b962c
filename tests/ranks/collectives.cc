// The operations between processes, through shared memory, by the C++ interface.
#include <gtest/gtest.h>
#include <limits>

#include <algorithm>
#include <numeric>
#include <random>
#include <ronde/ronde.hpp>

#include "support/rank_test.h"

namespace ronde::test {
namespace {

class Collectives : public testing::Test {
 protected:
  static void SetUpTestSuite() { ronde::init(); }
  static void TearDownTestSuite() { ronde::shutdown(); }

  static float sum_of_ranks() { return static_cast<float>(size() * (size() + 1) / 2); }
};

TEST_F(Collectives, Topology) {
  const Topology topology = ronde::topology();
  EXPECT_EQ(topology.rank, test::rank());
  EXPECT_EQ(topology.size, test::size());
  EXPECT_EQ(topology.local_size, test::size());
  EXPECT_EQ(topology.epoch, 1u);
}

TEST_F(Collectives, AllreduceOfEverySize) {
  for (const std::size_t count : {0u, 1u, 13u, 14u, 15u, 2047u, 2048u, 2049u, 65535u, 65536u, 65537u, 3000001u}) {
    std::vector<float> values(count, static_cast<float>(test::rank() + 1));
    ronde::allreduce(values, {.name = "x", .op = Op::sum});
    ASSERT_EQ(values, std::vector<float>(count, sum_of_ranks())) << count;
    const std::vector<float> input(count, static_cast<float>(test::rank() + 1));
    ronde::allreduce(input, values, {.name = "y", .op = Op::average});
    ASSERT_EQ(values, std::vector<float>(count, sum_of_ranks() / static_cast<float>(size()))) << count;
  }
}

TEST_F(Collectives, ScalesAndIntegerRules) {
  std::vector<std::int32_t> whole(100, test::rank() + 1);
  ronde::allreduce(whole, {.name = "truncated", .op = Op::sum, .prescale = 0.5});
  std::int32_t expected = 0;
  for (int r = 0; r < size(); ++r) {
    expected += (r + 1) / 2;  // each rank's value is scaled and truncated before the sum
  }
  EXPECT_EQ(whole, std::vector<std::int32_t>(100, expected));
  std::vector<double> real(3, 1.0);
  ronde::allreduce(real, {.name = "post", .op = Op::sum, .postscale = 3.0});
  EXPECT_EQ(real, std::vector<double>(3, 3.0 * size()));
}

TEST_F(Collectives, BroadcastFromEveryRoot) {
  for (int root = 0; root < size(); ++root) {
    for (const std::size_t count : {0u, 1u, 1000u, 500001u}) {
      std::vector<double> values(count, test::rank() == root ? root + 0.5 : -1);
      ronde::broadcast(values, {.name = "cast", .root = root});
      ASSERT_EQ(values, std::vector<double>(count, root + 0.5));
    }
  }
}

TEST_F(Collectives, AllgatherOfUnequalParts) {
  for (const std::size_t unit : {1u, 1000u, 100000u}) {
    const std::vector<std::int64_t> rows(unit * static_cast<std::size_t>(test::rank()), test::rank());
    const auto all = ronde::allgather(rows, {.name = "gather"});
    std::vector<std::int64_t> expected;
    for (int r = 0; r < size(); ++r) {
      expected.insert(expected.end(), unit * static_cast<std::size_t>(r), r);
    }
    ASSERT_EQ(std::vector<std::int64_t>(all.view().begin(), all.view().end()), expected);
  }
}

TEST_F(Collectives, ReduceGatherScatterByEveryRoot) {
  const auto ranks = static_cast<std::size_t>(size());
  for (int root = 0; root < size(); ++root) {
    const bool is_root = test::rank() == root;
    for (const std::size_t count : {1u, 3000u, 500001u}) {
      std::vector<float> values(count, static_cast<float>(test::rank() + 1));
      ronde::reduce(values, {.name = "reduce", .root = root, .op = Op::sum});
      ASSERT_EQ(values, std::vector<float>(count, is_root ? sum_of_ranks() : static_cast<float>(test::rank() + 1)));
      const std::vector<std::int64_t> own(count, test::rank());
      const auto all = ronde::gather<std::int64_t>(own, {.name = "gather", .root = root});
      ASSERT_EQ(all.view().size(), is_root ? ranks * count : 0);
      std::vector<std::int64_t> whole;
      for (int r = 0; is_root && r < size(); ++r) {
        whole.insert(whole.end(), count, r);
      }
      ASSERT_TRUE(std::equal(all.view().begin(), all.view().end(), whole.begin()));
      const auto part = ronde::scatter<std::int64_t>(whole, {.name = "scatter", .root = root});
      ASSERT_EQ(std::vector<std::int64_t>(part.view().begin(), part.view().end()), own);
    }
  }
}

TEST_F(Collectives, ScansOfEverySize) {
  const float up_to_own = static_cast<float>((test::rank() + 1) * (test::rank() + 2)) / 2;
  for (const std::size_t count : {1u, 3000u, 500001u}) {
    const std::vector<float> values(count, static_cast<float>(test::rank() + 1));
    std::vector<float> output(count);
    ronde::scan(values, output, {.name = "scan"});
    ASSERT_EQ(output, std::vector<float>(count, up_to_own));
    ronde::exscan(values, output, {.name = "exscan"});
    ASSERT_EQ(output, std::vector<float>(count, up_to_own - values.front()));
    output = values;
    ronde::exscan(output, {.name = "in place", .op = Op::max});
    const float before = test::rank() == 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(test::rank());
    ASSERT_EQ(output, std::vector<float>(count, before));
  }
}

// ResNet-50's gradients, a different random order on each rank and step.
std::vector<std::size_t> resnet50_gradients() {
  std::vector<std::size_t> counts = {9408, 64, 64};
  std::size_t in = 64;
  const std::size_t widths[] = {64, 128, 256, 512};
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const std::size_t w = widths[stage];
    const std::size_t out = 4 * w;
    for (int block = 0; block < blocks[stage]; ++block) {
      for (const std::size_t count : {in * w, w, w, 9 * w * w, w, w, w * out, out, out}) {
        counts.push_back(count);
      }
      if (block == 0) {
        for (const std::size_t count : {in * out, out, out}) {
          counts.push_back(count);
        }
      }
      in = out;
    }
  }
  counts.push_back(2048000);
  counts.push_back(1000);
  return counts;
}

TEST_F(Collectives, ResNet50InAnyOrder) {
  const std::vector<std::size_t> counts = resnet50_gradients();
  ASSERT_EQ(counts.size(), 161u);
  ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), 25557032u);
  std::mt19937 random(static_cast<unsigned>(1000 + test::rank()));
  std::vector<std::vector<float>> gradients;
  for (const std::size_t count : counts) {
    gradients.emplace_back(count);
  }
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  const int steps = size() <= 3 ? 10 : 2;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      std::fill(gradients[i].begin(), gradients[i].end(), static_cast<float>((test::rank() + 1) * (step + 1)));
    }
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Ticket> tickets;
    for (const std::size_t i : order) {
      tickets.push_back(ronde::allreduce_async(gradients[i], {.name = "g" + std::to_string(i), .op = Op::sum}));
    }
    wait_all(tickets);
    const float expected = sum_of_ranks() * static_cast<float>(step + 1);
    for (const auto& gradient : gradients) {
      ASSERT_EQ(gradient.front(), expected);
      ASSERT_EQ(gradient.back(), expected);
      ASSERT_EQ(gradient[gradient.size() / 2], expected);
    }
  }
}

TEST_F(Collectives, SlotsComeBackEachStep) {
  std::vector<float> values(1000);
  ronde_tensor tensor{};
  const std::int64_t shape[] = {1000};
  tensor.struct_size = sizeof tensor;
  tensor.data = values.data();
  tensor.shape = shape;
  tensor.ndim = 1;
  tensor.dtype = RONDE_FLOAT32;
  ronde_request request{};
  request.struct_size = sizeof request;
  request.op = RONDE_ALLREDUCE;
  request.name = "slot";
  request.name_bytes = 4;
  request.inputs = &tensor;
  request.count = 1;
  request.reduce_op = RONDE_SUM;
  std::int64_t slot = -1;
  ASSERT_EQ(ronde_register_slot(nullptr, &request, &slot), RONDE_OK) << ronde_last_error();
  EXPECT_EQ(ronde_wait_slot(slot, -1), RONDE_INVALID_ARGUMENT) << "never submitted";
  for (int step = 0; step < 100; ++step) {
    std::fill(values.begin(), values.end(), static_cast<float>(step + test::rank()));
    ASSERT_EQ(ronde_submit_slot(slot), RONDE_OK) << ronde_last_error();
    ASSERT_EQ(ronde_submit_slot(slot), RONDE_DUPLICATE_NAME);
    ASSERT_EQ(ronde_wait_slot(slot, -1), RONDE_OK) << ronde_last_error();
    ASSERT_EQ(values[999], static_cast<float>(step * size() + size() * (size() - 1) / 2));
  }
  EXPECT_EQ(ronde_unregister_slot(slot), RONDE_OK);
  EXPECT_EQ(ronde_submit_slot(slot), RONDE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace ronde::test
