// All-reduces of what is large between many hosts: the turns, the stages of all ranks side by side, and the values.
#include "collectives/schedule/circulant_schedule.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "collectives/schedule/allreduce_way.h"
#include "collectives/schedule/hierarchical_schedule.h"
#include "collectives/schedule/testing/message_world.h"
#include "collectives/schedule/testing/schedule_checks.h"
#include "collectives/schedule/two_phase_schedule.h"
#include "reduce/half.h"

namespace ronde::collectives {
namespace {

constexpr std::size_t kSlice = 1024;

std::vector<CirculantTurns> some_turns(std::size_t hosts) {
  std::vector<CirculantTurns> all = {CirculantTurns::ring(hosts)};
  for (const std::size_t turn : {0, 1, 2, 4, 100}) {
    all.push_back(CirculantTurns::by_radices(hosts, turn));
  }
  return all;
}

/// Block j of a host is of the j-th after it.
TEST(CirculantTurns, GatherEveryBlockOnce) {
  for (std::size_t hosts = 2; hosts <= 40; ++hosts) {
    for (const CirculantTurns& turns : some_turns(hosts)) {
      std::vector<bool> has(hosts);  // of any host, all do the same
      has[0] = true;
      for (std::size_t index = 0; index < turns.count(); ++index) {
        const std::vector<bool> before = has;
        for (const CirculantTurns::Message& each : turns.turn(index)) {
          for (std::size_t i = 0; i < each.count; ++i) {
            EXPECT_TRUE(before[each.first - each.distance + i]) << "the sender has it not";
            EXPECT_FALSE(has[each.first + i]) << "twice";
            has[each.first + i] = true;
          }
        }
      }
      EXPECT_EQ(has, std::vector<bool>(hosts, true));
    }
  }
}

/// Partial sums as sets of hosts, counted from the block's own.
TEST(CirculantTurns, ScatterEveryValueOnce) {
  for (std::size_t hosts = 2; hosts <= 40; ++hosts) {
    for (const CirculantTurns& turns : some_turns(hosts)) {
      // By block: how far before the block's host the hosts are whose values this host's partial sum has. All hosts
      // have the same, but a value of this host is one of a host `block` before the block's own.
      std::vector<std::vector<std::size_t>> sums;
      for (std::size_t block = 0; block < hosts; ++block) {
        sums.push_back({block});
      }
      for (std::size_t index = turns.count(); index-- > 0;) {
        const auto before = sums;
        for (const CirculantTurns::Message& each : turns.turn(index)) {
          for (std::size_t i = 0; i < each.count; ++i) {
            EXPECT_FALSE(before[each.first + i].empty()) << "sent twice";
            std::vector<std::size_t>& sum = sums[each.first - each.distance + i];
            sum.insert(sum.end(), before[each.first + i].begin(), before[each.first + i].end());
            sums[each.first + i].clear();
          }
        }
      }
      std::sort(sums[0].begin(), sums[0].end());
      std::vector<std::size_t> all(hosts);
      std::iota(all.begin(), all.end(), std::size_t{0});
      EXPECT_EQ(sums[0], all);
    }
  }
}

TEST(CirculantTurns, AreLogarithmicallyManyOrOfOneNeighbour) {
  EXPECT_EQ(CirculantTurns::by_radices(64, 0).count(), 6u);
  EXPECT_EQ(CirculantTurns::by_radices(64, 0).messages(), 6u);
  EXPECT_EQ(CirculantTurns::by_radices(100, 0).messages(), 7u) << "no power of two";
  EXPECT_EQ(CirculantTurns::by_radices(64, messages::kEachWithEach).messages(), 63u);
  EXPECT_EQ(CirculantTurns::ring(64).count(), 63u);
  for (std::size_t turn = 0; turn < 63; ++turn) {
    ASSERT_EQ(CirculantTurns::ring(64).turn(turn).size(), 1u);
    EXPECT_EQ(CirculantTurns::ring(64).turn(turn)[0].distance, 1u);
  }
}

/// Layouts of hosts with these many ranks each.
RankLayout layout_of(const std::vector<int>& ranks_of_hosts) {
  std::vector<int> first_of;
  for (const int ranks : ranks_of_hosts) {
    first_of.insert(first_of.end(), static_cast<std::size_t>(ranks), static_cast<int>(first_of.size()));
  }
  return RankLayout(first_of);
}

std::vector<RankLayout> layouts_of_more_than_two_hosts() {
  std::vector<RankLayout> layouts = {layout_of({2, 1, 3, 1, 2}), layout_of({1, 1, 1, 1, 1, 1, 1, 2}),
                                     RankLayout::apart(3),       RankLayout::apart(5),
                                     RankLayout::apart(8),       RankLayout::apart(11)};
  for (const RankLayout& layout : some_layouts()) {
    if (layout.hosts() > 2) {
      layouts.push_back(layout);
    }
  }
  return layouts;
}

template <typename Visit>
void for_each_world(Visit&& visit) {
  for (const RankLayout& layout : layouts_of_more_than_two_hosts()) {
    for (const CirculantTurns& turns : some_turns(static_cast<std::size_t>(layout.hosts()))) {
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{129}, kSlice, kSlice * 33 + 5}) {
        for (const bool sends_inputs : {false, true}) {
          if (turns.count() > 1 && (!sends_inputs || !layout.is_hierarchy())) {
            const std::size_t rails = layout.fewest();
            visit(layout, bytes, world_of(layout.ranks(), [&](int rank) {
                    return circulant_allreduce_schedule(rank, layout, bytes, kSlice, rails, turns, sends_inputs);
                  }));
          }
        }
      }
    }
  }
}

TEST(CirculantSchedule, SendsOverTheWireWhatHostsMust) {
  for_each_world([](const RankLayout& layout, std::size_t bytes, const Schedules& world) {
    check(world);
    expect_all_written_once(world, bytes);
    const std::vector<std::size_t> sent = sent_by_hosts(world, layout);
    EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), std::size_t{0}),
              2 * static_cast<std::size_t>(layout.hosts() - 1) * bytes);
  });
}

TEST(CirculantSchedule, NobodyWritesBeforeItHasHeardFromAll) {
  for_each_world([](const RankLayout&, std::size_t, const Schedules& world) {
    expect_nobody_writes_before_it_has_heard_from_all(world);
  });
}

TEST(CirculantSchedule, WhatIsSentIsKeptUntilItWasReceived) {
  for_each_world([](const RankLayout&, std::size_t, const Schedules& world) { expect_what_is_sent_is_kept(world); });
}

/// The check itself is one that the schedules of one turn pass, too.
TEST(CirculantSchedule, AsOthersDo) {
  for (const RankLayout& layout : layouts_of_more_than_two_hosts()) {
    expect_what_is_sent_is_kept(world_of(layout.ranks(), [&](int rank) {
      return two_phase_allreduce_schedule(rank, layout.ranks(), kSlice * 33 + 5, 256);
    }));
    if (layout.is_hierarchy()) {
      expect_what_is_sent_is_kept(world_of(layout.ranks(), [&](int rank) {
        return hierarchical_allreduce_schedule(rank, layout, kSlice * 33 + 5, kSlice, layout.fewest());
      }));
    }
  }
}

messages::MessageLimits limits_of(std::size_t large_turn, std::size_t ring) {
  return {.one_turn = 256,
          .gathered = 1 << 20,
          .large_turn = large_turn,
          .direct = 1 << 20,
          .ring = ring,
          .chunk = 1024,
          .rank_order_to = 0};
}

/// Of operations whose result is the same in any order.
TEST(CirculantSchedule, GivesWhatAllRanksGive) {
  for (const RankLayout& layout :
       {layout_of({2, 2, 2}), RankLayout::apart(5), layout_of({2, 1, 3}), RankLayout({0, 1, 2, 1, 0, 2, 0, 1})}) {
    JobSpec spec;
    spec.size = layout.ranks();
    spec.elements = {0, 1, 300, 2500};
    for (const auto& [large_turn, ring] : {std::pair<std::size_t, std::size_t>{0, 0}, {1, 0}, {0, 1}}) {
      const auto jobs = [&] {
        std::vector<Job> made;
        for (const DType dtype : {DType::float32, DType::bfloat16, DType::int32, DType::uint8, DType::int64}) {
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::product, ReduceOp::average}) {
            spec.dtype = dtype;
            spec.reduce_op = op;
            spec.in_place = !spec.in_place;
            if (is_integer(dtype) || op == ReduceOp::max) {
              made.push_back(make_job(spec));
            }
          }
        }
        return made;
      };
      const messages::MessageLimits limits = limits_of(large_turn, ring);
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        EXPECT_EQ(MessageWorld(layout, 2, limits).run_by_hand(jobs(), seed), "");
      }
      EXPECT_EQ(MessageWorld(layout, 2, limits).run_threads(jobs()), "");
    }
  }
}

std::vector<double> numbers_of(DType dtype, const std::vector<std::byte>& bytes) {
  const std::size_t element = dtype_bytes(dtype);
  std::vector<double> numbers;
  for (std::size_t at = 0; at < bytes.size(); at += element) {
    float wide = 0;
    std::uint16_t narrow = 0;
    std::memcpy(dtype == DType::float32 ? static_cast<void*>(&wide) : &narrow, bytes.data() + at, element);
    numbers.push_back(dtype == DType::float32   ? wide
                      : dtype == DType::float16 ? reduce::widen_float16(narrow)
                                                : reduce::widen_bfloat16(narrow));
  }
  return numbers;
}

/// What is rounded has the same bits on every rank, near to those of all ranks in one go: `tolerance` of the values
/// that are added, which are below 64 in fill().
void expect_near(const Job& job, DType dtype, const std::vector<std::byte>& expected, double tolerance) {
  for (std::size_t rank = 0; rank < job.outputs.size(); ++rank) {
    EXPECT_EQ(job.outputs[rank][0].content(), job.outputs[0][0].content()) << "rank " << rank;
  }
  const std::vector<double> found = numbers_of(dtype, job.outputs[0][0].content());
  const std::vector<double> wanted = numbers_of(dtype, expected);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], wanted[i], tolerance) << "element " << i;
  }
}

TEST(CirculantSchedule, ScalesAndDividesOnce) {
  for (const RankLayout& layout : {layout_of({2, 2, 2}), RankLayout::apart(7), layout_of({1, 2, 1, 1, 3})}) {
    for (const auto& [large_turn, ring] : {std::pair<std::size_t, std::size_t>{0, 0}, {1, 0}, {0, 1}}) {
      for (const auto& [dtype, tolerance] :
           {std::pair{DType::float32, 1e-4}, {DType::float16, 2.0}, {DType::bfloat16, 16.0}}) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
          for (const double scale : {1.0, 0.37}) {
            JobSpec spec;
            spec.size = layout.ranks();
            spec.elements = {4001};
            spec.dtype = dtype;
            spec.reduce_op = op;
            spec.prescale = scale;
            spec.postscale = 1.0 / (scale * scale);
            std::vector<Job> jobs;
            jobs.push_back(make_job(spec));
            std::vector<std::vector<std::byte>> expected;
            expected.swap(jobs[0].expected[0]);
            ASSERT_EQ(MessageWorld(layout, 2, limits_of(large_turn, ring)).run_threads(jobs), "");
            expect_near(jobs[0], dtype, expected[0], tolerance);
          }
        }
      }
    }
  }
}

/// Small values of hosts of one rank each were divided one by one: a sixth of the least number is none.
TEST(CirculantSchedule, DividesNoValueOfFloat16BeforeItIsAdded) {
  const RankLayout layout = RankLayout::apart(6);
  EXPECT_EQ(messages::allreduce_way(0, layout, limits_of(0, 0), 4096, {DType::float16, ReduceOp::average})
                .combinations.size(),
            1u);
  EXPECT_EQ(messages::allreduce_way(0, layout, limits_of(0, 0), 4096, {DType::float16, ReduceOp::sum, 0.5, 2.0})
                .combinations.size(),
            1u);
  EXPECT_EQ(messages::allreduce_way(0, layout, limits_of(0, 0), 4096, {DType::float16, ReduceOp::sum})
                .combinations.size(),
            3u);
}

/// Partial sums of a ring's chunks would else take as much memory as there are hosts.
TEST(CirculantSchedule, KeepsPartialSumsOfFewChunks) {
  for (const std::size_t hosts : {9, 64, 300}) {
    const RankLayout layout = RankLayout::apart(static_cast<int>(hosts));
    const auto schedule =
        circulant_allreduce_schedule(0, layout, kSlice * 1000, kSlice, 1, CirculantTurns::ring(hosts), false);
    EXPECT_LE(schedule->scratch_bytes(), kSlice * 17);
  }
}

TEST(CirculantSchedule, IsChosenForManyHosts) {
  const auto stages = [](const RankLayout& layout, std::size_t bytes, const messages::MessageLimits& limits,
                         const reduce::Reduction& reduction = {}) {
    const messages::AllreduceWay way = messages::allreduce_way(0, layout, limits, bytes, reduction);
    EXPECT_EQ(way.combinations.size(), way.schedule->combinations());
    return way.combinations.size() == 3;
  };
  messages::MessageLimits limits{.large_turn = 2};
  const RankLayout apart = RankLayout::apart(64);
  EXPECT_TRUE(stages(apart, limits.one_turn + 1, limits));
  EXPECT_TRUE(stages(apart, 64 * limits.direct, limits));
  EXPECT_FALSE(stages(apart, 64 * (limits.direct + 1), limits)) << "parts are large enough";
  EXPECT_FALSE(stages(apart, limits.one_turn + 1, limits, {.dtype = DType::float8_e5m2})) << "rounded too often";
  EXPECT_FALSE(stages(apart, limits.one_turn + 1, {})) << "a turn costs more than all messages";
  EXPECT_FALSE(stages(RankLayout::apart(4), limits.one_turn + 1, {.large_turn = 0})) << "few ranks keep their order";
  EXPECT_TRUE(stages(RankLayout::apart(4), limits.one_turn + 1, {.large_turn = 0, .rank_order_to = 0}));
  limits.ring = std::size_t{64} << 20;
  EXPECT_TRUE(stages(apart, limits.ring, limits));
  EXPECT_FALSE(stages(apart, limits.ring - 1, limits));
  EXPECT_FALSE(stages(RankLayout::apart(2), std::size_t{64} << 20, limits)) << "one turn is all there is";
}

}  // namespace
}  // namespace ronde::collectives
