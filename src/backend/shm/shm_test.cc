#include "backend/shm/shm.h"

#include <gtest/gtest.h>

#include "transport/loopback/loopback.h"

namespace ronde::backend {
namespace {

Plan plan_of(OpKind kind, DType dtype = DType::float32, ReduceOp op = ReduceOp::sum) {
  Plan plan;
  plan.kind = kind;
  plan.dtype = dtype;
  plan.reduce_op = op;
  return plan;
}

TEST(ShmBackend, SaysWhatItSupports) {
  const auto arena = transport::make_solo_arena();
  const auto backend = make_shm_backend(*arena);
  EXPECT_EQ(backend->name(), "shm");
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int32, DType::int64,
                            DType::uint8, DType::int8}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
      EXPECT_TRUE(backend->supports(plan_of(OpKind::allreduce, dtype, op)));
    }
  }
  for (const DType dtype : {DType::float32, DType::boolean, DType::complex128, DType::float8_e5m2}) {
    EXPECT_TRUE(backend->supports(plan_of(OpKind::broadcast, dtype)));
    EXPECT_TRUE(backend->supports(plan_of(OpKind::allgather, dtype)));
  }
  EXPECT_TRUE(backend->supports(plan_of(OpKind::barrier)));
}

TEST(ShmBackend, RefusesTheRestInASentence) {
  const auto arena = transport::make_solo_arena();
  const auto backend = make_shm_backend(*arena);
  const auto refused = [&](const Plan& plan) {
    const Status status = backend->supports(plan);
    return status.code() == Code::not_implemented && !status.message().empty();
  };
  EXPECT_TRUE(refused(plan_of(OpKind::send)));
  EXPECT_TRUE(refused(plan_of(OpKind::allreduce, DType::int32, ReduceOp::adasum)));
  for (const OpKind kind : {OpKind::reducescatter, OpKind::reduce}) {
    EXPECT_TRUE(refused(plan_of(kind, DType::float32, ReduceOp::adasum)));
    EXPECT_TRUE(refused(plan_of(kind, DType::complex64, ReduceOp::max)));
    EXPECT_TRUE(backend->supports(plan_of(kind)));
  }
  EXPECT_TRUE(backend->supports(plan_of(OpKind::allreduce, DType::float32, ReduceOp::adasum)));
  Plan on_gpu = plan_of(OpKind::allreduce);
  on_gpu.members.push_back({"w", {nullptr, DType::float32, {1}, {DeviceType::cuda, 0}}, {}});
  EXPECT_TRUE(refused(on_gpu));
  EXPECT_EQ(backend->supports(on_gpu).tensor(), "w");
}

TEST(ShmBackend, RunsPlansOfTwoRanks) {
  const auto world = transport::make_loopback_world(2, transport::RegionLayout::for_size(2));
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::vector<float>> values = {{1, 2, 3}, {10, 20, 30}};
  std::vector<Plan> plans(2, plan_of(OpKind::allreduce));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    backends.push_back(make_shm_backend(*world[rank]));
    const Tensor tensor{values[rank].data(), DType::float32, {3}, {}};
    plans[rank].members.push_back({"x", tensor, tensor});
  }
  for (int round = 0; round < 3; ++round) {
    const auto first = backends[0]->launch(plans[0]).value();
    const auto second = backends[1]->launch(plans[1]).value();
    bool first_done = false;
    bool second_done = false;
    for (int step = 0; step < 100 && !(first_done && second_done); ++step) {
      first_done = first_done || first->advance() == Progress::done;
      second_done = second_done || second->advance() == Progress::done;
    }
    ASSERT_TRUE(first_done && second_done);
    EXPECT_EQ(values[0], values[1]);
  }
  EXPECT_EQ(values[0], (std::vector<float>{44, 88, 132}));
}

TEST(ShmBackend, EveryRankGoesByTheTableOfTheFirst) {
  const auto world = transport::make_loopback_world(2, transport::RegionLayout::for_size(2));
  // By its own row the second rank would reduce in two phases what the first reduces in one shot, and wait for ever.
  const collectives::Table one_shot = collectives::Table::parse("ranks any: one_shot 4096").value();
  const collectives::Table two_phases = collectives::Table::parse("ranks any: one_shot 0").value();
  const auto second = make_shm_backend(*world[1], two_phases);
  const auto first = make_shm_backend(*world[0], one_shot);
  EXPECT_EQ(first->first_thresholds(), one_shot.of(2));
  EXPECT_EQ(second->first_thresholds(), one_shot.of(2));
  const auto ticks_of = [&] {
    std::vector<std::vector<float>> values = {{1, 2, 3}, {10, 20, 30}};
    std::vector<Plan> plans(2, plan_of(OpKind::allreduce));
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const Tensor tensor{values[rank].data(), DType::float32, {3}, {}};
      plans[rank].members.push_back({"x", tensor, tensor});
    }
    const auto of_first = first->launch(plans[0]).value();
    const auto of_second = second->launch(plans[1]).value();
    bool first_done = false;
    bool second_done = false;
    for (int step = 0; step < 100 && !(first_done && second_done); ++step) {
      first_done = first_done || of_first->advance() == Progress::done;
      second_done = second_done || of_second->advance() == Progress::done;
    }
    EXPECT_TRUE(first_done && second_done);
    EXPECT_EQ(values[0], (std::vector<float>{11, 22, 33}));
    EXPECT_EQ(values[1], values[0]);
    return world[1]->control(1).ticks.reduced.value.load();
  };
  EXPECT_EQ(ticks_of(), 0u) << "in one shot nobody stores that it has reduced";
  first->set_thresholds(two_phases.of(2));
  second->set_thresholds(two_phases.of(2));
  EXPECT_EQ(ticks_of(), 2u) << "in two phases each rank does";
  EXPECT_EQ(second->first_thresholds(), one_shot.of(2));
}

}  // namespace
}  // namespace ronde::backend
