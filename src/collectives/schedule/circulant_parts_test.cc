// All-gathers, reduce-scatters and reduces of much in turns between hosts: the stages of all ranks side by side, and
// the values.
#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "collectives/schedule/circulant_gather_schedule.h"
#include "collectives/schedule/circulant_reduce_scatter_schedule.h"
#include "collectives/schedule/testing/message_world.h"
#include "collectives/schedule/testing/schedule_checks.h"

namespace ronde::collectives {
namespace {

constexpr std::size_t kPartsSlice = 1024;

std::vector<RankLayout> layouts_of_equal_hosts() {
  std::vector<RankLayout> layouts = {RankLayout::apart(3), RankLayout::apart(5), RankLayout::apart(8),
                                     RankLayout({0, 1, 1, 0, 4, 4})};
  for (const RankLayout& layout : some_layouts()) {
    if (layout.hosts() > 2 && layout.fewest() == layout.most()) {
      layouts.push_back(layout);
    }
  }
  return layouts;
}

/// Calls visit(layout, turns, sizes of the ranks' parts); some have nothing.
template <typename Visit>
void for_each_case(Visit&& visit) {
  for (const RankLayout& layout : layouts_of_equal_hosts()) {
    const auto hosts = static_cast<std::size_t>(layout.hosts());
    for (const CirculantTurns& turns :
         {CirculantTurns::ring(hosts), CirculantTurns::by_radices(hosts, 0), CirculantTurns::by_radices(hosts, 1)}) {
      for (const std::size_t scale : {std::size_t{1}, std::size_t{100}, kPartsSlice * 3, kPartsSlice * 20}) {
        std::vector<std::size_t> parts;
        for (int rank = 0; rank < layout.ranks(); ++rank) {
          parts.push_back(scale * static_cast<std::size_t>(rank * 7 % 5));
        }
        visit(layout, turns, parts);
      }
      std::vector<std::size_t> of_one(static_cast<std::size_t>(layout.ranks()));
      of_one.back() = kPartsSlice * 7 + 5;
      visit(layout, turns, of_one);
    }
  }
}

std::size_t bytes_of_host(const RankLayout& layout, int host, const std::vector<std::size_t>& parts) {
  std::size_t own = 0;
  for (const int rank : layout.ranks_of(host)) {
    own += parts[static_cast<std::size_t>(rank)];
  }
  return own;
}

/// In all: a host may pass on more than its own.
std::size_t sent_in_all(const Schedules& world, const RankLayout& layout) {
  const std::vector<std::size_t> sent = sent_by_hosts(world, layout);
  return std::accumulate(sent.begin(), sent.end(), std::size_t{0});
}

TEST(CirculantGatherSchedule, SendsEachPartOnceToEachHost) {
  for_each_case([](const RankLayout& layout, const CirculantTurns& turns, const std::vector<std::size_t>& parts) {
    const Schedules world = world_of(layout.ranks(), [&](int rank) {
      return circulant_gather_schedule(HostParts{rank, layout, parts, kPartsSlice}, turns);
    });
    check(world);
    const std::size_t all = std::accumulate(parts.begin(), parts.end(), std::size_t{0});
    EXPECT_EQ(sent_in_all(world, layout), all * static_cast<std::size_t>(layout.hosts() - 1));
  });
}

TEST(CirculantReduceScatterSchedule, SendsAPartialResultOfEachHost) {
  for_each_case([](const RankLayout& layout, const CirculantTurns& turns, const std::vector<std::size_t>& parts) {
    const Schedules world = world_of(layout.ranks(), [&](int rank) {
      return circulant_reduce_scatter_schedule(HostParts{rank, layout, parts, kPartsSlice}, turns);
    });
    check(world);
    std::size_t expected = 0;
    for (int host = 0; host < layout.hosts(); ++host) {
      expected += bytes_of_host(layout, host, parts) * static_cast<std::size_t>(layout.hosts() - 1);
    }
    EXPECT_EQ(sent_in_all(world, layout), expected);
  });
}

TEST(CirculantParts, TakeLogarithmicallyManyMessages) {
  const RankLayout layout = RankLayout::apart(64);
  const std::vector<std::size_t> parts(64, 100);
  const CirculantTurns turns = CirculantTurns::by_radices(64, 0);
  for (const bool gathers : {true, false}) {
    const Totals totals = check(world_of(64, [&](int rank) {
      HostParts all{rank, layout, parts, kPartsSlice};
      return gathers ? circulant_gather_schedule(std::move(all), turns)
                     : circulant_reduce_scatter_schedule(std::move(all), turns);
    }));
    EXPECT_EQ(totals.messages, std::vector<std::size_t>(64, 6));
  }
}

/// Of values whose result is the same in any order.
std::vector<Job> jobs_of(JobSpec spec) {
  const auto ranks = static_cast<std::size_t>(spec.size);
  std::vector<Job> jobs;
  for (const OpKind kind : {OpKind::allgather, OpKind::reducescatter, OpKind::reduce}) {
    spec.kind = kind;
    for (const std::int64_t width : {1, 40, 3000}) {
      spec.elements = {width};
      spec.rows.clear();
      if (kind != OpKind::reduce) {
        spec.rows.emplace_back();
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          spec.rows.back().push_back(static_cast<std::int64_t>(kind == OpKind::allgather ? rank * 7 % 5 : 3));
        }
      }
      for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::int32, DType::uint8}) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::average}) {
          spec.dtype = dtype;
          spec.reduce_op = op;
          spec.root = spec.size - 1;
          if (op == ReduceOp::max || (op == ReduceOp::sum ? dtype != DType::bfloat16 : dtype == DType::float32)) {
            jobs.push_back(make_job(spec));
          }
        }
      }
    }
  }
  return jobs;
}

TEST(CirculantParts, GiveWhatAllRanksGive) {
  for (const RankLayout& layout :
       {RankLayout({0, 0, 2, 2, 4, 4}), RankLayout::apart(5), RankLayout({0, 1, 1, 0, 4, 4})}) {
    JobSpec spec;
    spec.size = layout.ranks();
    spec.any_order = true;
    for (const auto& [large_turn, ring] : {std::pair<std::size_t, std::size_t>{0, 0}, {1, 0}, {0, 1}}) {
      const messages::MessageLimits limits{.one_turn = 64,
                                           .large_turn = large_turn,
                                           .direct = 1 << 20,
                                           .ring = ring,
                                           .chunk = 1024,
                                           .rank_order_to = 0};
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        EXPECT_EQ(MessageWorld(layout, 2, limits).run_by_hand(jobs_of(spec), seed), "");
      }
      EXPECT_EQ(MessageWorld(layout, 2, limits).run_threads(jobs_of(spec)), "");
    }
  }
}

}  // namespace
}  // namespace ronde::collectives
