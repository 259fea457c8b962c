// All-reduces of what is small between many hosts: the turns, the stages of all ranks side by side, and the values.
#include "collectives/schedule/multiplying_schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "collectives/schedule/allreduce_way.h"
#include "collectives/schedule/testing/message_world.h"

namespace ronde::collectives {
namespace {

TEST(Turns, CostTheLeast) {
  const auto turns = [](int hosts, std::size_t turn) {
    const Turns best = best_turns(hosts, turn);
    return std::pair(best.radices, best.core);
  };
  using Radices = std::vector<int>;
  EXPECT_EQ(turns(1, 4), std::pair(Radices(), 1));
  EXPECT_EQ(turns(2, 4), std::pair(Radices{2}, 2));
  EXPECT_EQ(turns(8, 0), std::pair(Radices({2, 2, 2}), 8)) << "turns are free";
  EXPECT_EQ(turns(8, 4), std::pair(Radices{8}, 8)) << "4 + 7 messages; 4 + 1 and 4 + 3 are 12";
  EXPECT_EQ(turns(16, 4), std::pair(Radices({4, 4}), 16)) << "8 + 6 messages; in one turn 19, in three 17";
  EXPECT_EQ(turns(16, 100), std::pair(Radices{16}, 16));
  EXPECT_EQ(turns(17, 2), std::pair(Radices({3, 3}), 9)) << "8 and 6 for the fold; alone 18, with 16 in the core 16";
  EXPECT_EQ(turns(3, 0), std::pair(Radices{3}, 3));
  EXPECT_EQ(turns(67, 4), std::pair(Radices({6, 6}), 36)) << "28; with 64 in the core 31";
}

/// Layouts of hosts with these many ranks each.
RankLayout hosts_of(const std::vector<int>& ranks_of_hosts) {
  std::vector<int> first_of;
  for (const int ranks : ranks_of_hosts) {
    first_of.insert(first_of.end(), static_cast<std::size_t>(ranks), static_cast<int>(first_of.size()));
  }
  return RankLayout(first_of);
}

/// What each rank has heard of after each stage, by the messages alone: a set of ranks whose values are in what it
/// would send. Checks that no value is reduced twice.
class Hearing {
 public:
  explicit Hearing(const RankLayout& layout, const Turns& turns) : layout_(layout) {
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      schedules_.push_back(multiplying_allreduce_schedule(rank, layout, 24, turns));
      has_.push_back({rank});
    }
  }

  void run() {
    for (std::size_t t = 0; t < schedules_[0]->stages(); ++t) {
      take_stage(t);
      for (int rank = 0; rank < layout_.ranks(); ++rank) {
        const bool has_all = static_cast<int>(has_[static_cast<std::size_t>(rank)].size()) == layout_.ranks();
        EXPECT_EQ(has_all, t + 1 >= schedules_[static_cast<std::size_t>(rank)]->hears_all_by())
            << "rank " << rank << ", stage " << t;
      }
    }
  }

 private:
  void take_stage(std::size_t t) {
    std::map<std::pair<int, int>, std::set<int>> sent;
    std::vector<Stage> stages(schedules_.size());
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      ASSERT_EQ(schedules_[rank]->stages(), schedules_[0]->stages());
      schedules_[rank]->describe(t, stages[rank]);
      for (const Outgoing& each : stages[rank].outgoing) {
        EXPECT_TRUE(sent.try_emplace({static_cast<int>(rank), each.to}, has_[rank]).second) << "twice in a stage";
        EXPECT_EQ(each.from.bytes(), 24u);
      }
    }
    std::size_t received = 0;
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      for (const Incoming& each : stages[rank].incoming) {
        const auto message = sent.find({each.from, static_cast<int>(rank)});
        ASSERT_NE(message, sent.end()) << each.from << " to " << rank << " in stage " << t;
        ++received;
        if (each.into.list == kKept) {
          const std::vector<int>& inputs = schedules_[rank]->inputs(stages[rank].combination);
          EXPECT_EQ(std::count(inputs.begin(), inputs.end(), each.from), 1);
          for (const int value : message->second) {
            EXPECT_TRUE(has_[rank].insert(value).second) << "rank " << rank << " reduces " << value << " twice";
          }
        } else {
          has_[rank] = message->second;
        }
      }
    }
    EXPECT_EQ(received, sent.size());
  }

  const RankLayout layout_;
  std::vector<std::unique_ptr<Schedule>> schedules_;
  std::vector<std::set<int>> has_;
};

TEST(MultiplyingSchedule, EveryRankHearsEachValueOnce) {
  for (int hosts = 2; hosts <= 40; ++hosts) {
    for (const std::size_t turn : {0, 1, 4, 100}) {
      Hearing(RankLayout::apart(hosts), best_turns(hosts, turn)).run();
    }
  }
  for (const std::vector<int>& ranks : std::vector<std::vector<int>>{
           {2, 2}, {1, 3}, {3, 1, 1}, {1, 1, 2}, {2, 1, 3, 1, 2}, {1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1}, {4, 4, 4, 4, 4}}) {
    for (const std::size_t turn : {0, 1, 4, 100}) {
      const RankLayout layout = hosts_of(ranks);
      Hearing(layout, best_turns(layout.hosts(), turn)).run();
    }
  }
  for (const std::vector<int>& ranks : std::vector<std::vector<int>>{{1, 1, 1}, {1, 3, 1}, {2, 1, 4}, {3, 2, 1, 2}}) {
    Hearing(hosts_of(ranks), {{2}, 2}).run();
  }
}

/// Of every type and operation that goes this way, in one message, by hand in many orders and by threads.
TEST(MultiplyingSchedule, GivesWhatAllRanksGive) {
  const std::vector<std::vector<int>> worlds = {{2, 2, 2}, {1, 1, 1, 1, 1}, {1, 3, 1}, {2, 1, 1, 2, 1, 1, 1}};
  for (const std::vector<int>& ranks : worlds) {
    const RankLayout layout = hosts_of(ranks);
    std::vector<int> first_of;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      first_of.push_back(layout.ranks_of(layout.host_of(rank)).front());
    }
    for (const std::size_t turn : {0, 1, 3}) {
      const Turns turns = best_turns(layout.hosts(), turn);
      const bool is_exchange = !layout.is_hierarchy() && turns.radices == std::vector<int>{layout.hosts()};
      const auto jobs = [&] {
        std::vector<Job> made;
        for (const DType dtype : {DType::float32, DType::float16, DType::int32, DType::complex64}) {
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::product, ReduceOp::max}) {
            JobSpec spec;
            spec.size = layout.ranks();
            spec.elements = {0, 1, 13, 30};
            spec.dtype = dtype;
            spec.reduce_op = op;
            spec.first_of = first_of;
            spec.turns = is_exchange ? Turns() : turns;
            spec.prescale = op == ReduceOp::average ? 0.37 : 1.0;
            spec.in_place = turn == 1;
            if (reduce::supports({dtype, op, 1.0, 1.0}).is_ok()) {
              made.push_back(make_job(spec));
            }
          }
        }
        return made;
      };
      const messages::MessageLimits limits{.one_turn = 1024, .turn = turn, .chunk = 256, .rank_order_to = 0};
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        EXPECT_EQ(MessageWorld(layout, 2, limits).run_by_hand(jobs(), seed), "");
      }
      EXPECT_EQ(MessageWorld(layout, 2, limits).run_threads(jobs()), "");
    }
  }
}

/// 16-bit sums are added in other orders by other ways, and still alike on all ranks.
TEST(MultiplyingSchedule, IsChosenForWhatIsSmallOfManyHosts) {
  const messages::MessageLimits limits;
  const auto radices = [&](const RankLayout& layout, std::size_t bytes, const reduce::Reduction& reduction = {}) {
    const messages::AllreduceWay way = messages::allreduce_way(0, layout, limits, bytes, reduction);
    EXPECT_EQ(way.combinations.size(), way.schedule->combinations());
    return way.is_hierarchical ? way.combinations.size() : 0;
  };
  const RankLayout many = RankLayout::apart(64);
  EXPECT_GT(radices(many, 8), 2u);
  EXPECT_GT(radices(many, limits.one_turn), 2u);
  EXPECT_EQ(radices(many, limits.one_turn + 1), 0u);
  EXPECT_EQ(radices(many, 8, {.dtype = DType::float8_e4m3}), 0u) << "few bits do not bear rounding twice";
  EXPECT_EQ(radices(RankLayout::apart(4), 8), 0u) << "few add in the order of ranks";
  EXPECT_EQ(radices(RankLayout::apart(5), 8), 0u) << "one turn is the exchange";
}

}  // namespace
}  // namespace ronde::collectives
