// All-reduces of what is small between many hosts: the turns, the stages of all ranks side by side, and the values.
#include "collectives/schedule/bruck_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "collectives/schedule/allreduce_way.h"
#include "collectives/schedule/testing/message_world.h"
#include "collectives/schedule/turns.h"

namespace ronde::collectives {
namespace {

using Radices = std::vector<std::size_t>;

TEST(Turns, CostTheLeast) {
  EXPECT_EQ(best_turns(1, 4), Radices());
  EXPECT_EQ(best_turns(2, 4), Radices{2});
  EXPECT_EQ(best_turns(8, 0), Radices({2, 2, 2})) << "turns are free";
  EXPECT_EQ(best_turns(8, 4), Radices{8}) << "4 + 7 messages; in two turns 8 + 4";
  EXPECT_EQ(best_turns(16, 4), Radices({4, 4})) << "8 + 6 messages; in one turn 19, in three 17";
  EXPECT_EQ(best_turns(16, 100), Radices{16});
}

std::size_t cost_of(const Radices& radices, std::size_t hosts, std::size_t turn) {
  std::size_t cost = 0;
  std::size_t have = 1;
  for (const std::size_t radix : radices) {
    EXPECT_LT(have, hosts) << "a turn in which nothing is missing";
    EXPECT_GE(radix, 2u);
    cost += turn + std::min(radix, (hosts + have - 1) / have) - 1;
    have *= radix;
  }
  EXPECT_GE(have, hosts);
  return cost;
}

std::size_t least_cost(std::size_t have, std::size_t hosts, std::size_t turn) {
  std::size_t least = have >= hosts ? 0 : static_cast<std::size_t>(-1);
  for (std::size_t radix = 2; have < hosts && radix <= (hosts + have - 1) / have; ++radix) {
    least = std::min(least, turn + radix - 1 + least_cost(have * radix, hosts, turn));
  }
  return least;
}

TEST(Turns, CostNoMoreThanAnyOthers) {
  for (std::size_t hosts = 2; hosts <= 70; ++hosts) {
    for (const std::size_t turn : {0, 1, 2, 5, 30}) {
      EXPECT_EQ(cost_of(best_turns(hosts, turn), hosts, turn), least_cost(1, hosts, turn)) << hosts << ", " << turn;
    }
  }
}

/// Layouts of hosts with these many ranks each.
RankLayout hosts_of(const std::vector<int>& ranks_of_hosts) {
  std::vector<int> first_of;
  for (const int ranks : ranks_of_hosts) {
    first_of.insert(first_of.end(), static_cast<std::size_t>(ranks), static_cast<int>(first_of.size()));
  }
  return RankLayout(first_of);
}

/// Carries the stages of all ranks out with blocks that are numbers of hosts, and checks what each rank has by when.
class Gathering {
 public:
  Gathering(const RankLayout& layout, std::size_t turn) : layout_(layout) {
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      schedules_.push_back(bruck_allreduce_schedule(rank, layout, kBytes, turn));
      scratch_.emplace_back(schedules_.back()->scratch_bytes() / kBytes, -1);
      knows_.push_back({rank});
    }
  }

  void run() {
    for (std::size_t t = 0; t < schedules_[0]->stages(); ++t) {
      take_stage(t);
      for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
        EXPECT_EQ(static_cast<int>(knows_[rank].size()) == layout_.ranks(), t + 1 >= schedules_[rank]->hears_all_by())
            << "rank " << rank << ", stage " << t;
      }
    }
  }

 private:
  static constexpr std::size_t kBytes = 16;

  void take_stage(std::size_t t) {
    struct Message {
      std::vector<int> blocks;
      std::set<int> knows;
    };
    std::map<std::pair<int, int>, Message> sent;
    std::vector<Stage> stages(schedules_.size());
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      ASSERT_EQ(schedules_[rank]->stages(), schedules_[0]->stages());
      schedules_[rank]->describe(t, stages[rank]);
      for (const Outgoing& each : stages[rank].outgoing) {
        Message message{{}, knows_[rank]};
        for (std::size_t at = each.from.begin; each.from.list == kScratch && at < each.from.end; at += kBytes) {
          message.blocks.push_back(scratch_[rank][at / kBytes]);
        }
        EXPECT_TRUE(sent.try_emplace({static_cast<int>(rank), each.to}, message).second) << "twice in a stage";
      }
    }
    std::size_t received = 0;
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      for (const Incoming& each : stages[rank].incoming) {
        const auto message = sent.find({each.from, static_cast<int>(rank)});
        ASSERT_NE(message, sent.end()) << each.from << " to " << rank << " in stage " << t;
        ++received;
        knows_[rank].insert(message->second.knows.begin(), message->second.knows.end());
        for (std::size_t i = 0; i < message->second.blocks.size(); ++i) {
          int& block = scratch_[rank][each.into.begin / kBytes + i];
          EXPECT_EQ(block, -1) << "a block is written twice";
          block = message->second.blocks[i];
        }
      }
      work(static_cast<int>(rank), stages[rank]);
    }
    EXPECT_EQ(received, sent.size());
  }

  void work(int rank, const Stage& stage) {
    const auto index = static_cast<std::size_t>(rank);
    if (stage.work == Work::copy_to_scratch || stage.work == Work::reduce_to_scratch) {
      scratch_[index][stage.scratch / kBytes] = layout_.host_of(rank);
    } else if (stage.work == Work::reduce_gathered) {
      const auto hosts = static_cast<std::size_t>(layout_.hosts());
      ASSERT_EQ(schedules_[index]->inputs(stage.combination).size(), hosts);
      for (std::size_t host = 0; host < hosts; ++host) {
        EXPECT_EQ(scratch_[index][schedules_[index]->gathered(host) / kBytes], static_cast<int>(host));
      }
    }
  }

  const RankLayout layout_;
  std::vector<std::unique_ptr<Schedule>> schedules_;
  std::vector<std::vector<int>> scratch_;  ///< by rank and block, the host whose values are there; -1: none
  std::vector<std::set<int>> knows_;       ///< by rank, from whom it has heard
};

TEST(BruckSchedule, BringsEveryHostsValuesToEveryHostOnce) {
  for (int hosts = 2; hosts <= 40; ++hosts) {
    for (const std::size_t turn : {0, 1, 2, 4, 100}) {
      Gathering(RankLayout::apart(hosts), turn).run();
    }
  }
  for (const std::vector<int>& ranks : std::vector<std::vector<int>>{
           {2, 2}, {1, 3}, {3, 1, 1}, {1, 1, 2}, {2, 1, 3, 1, 2}, {1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1}, {4, 4, 4, 4, 4}}) {
    for (const std::size_t turn : {0, 1, 4, 100}) {
      Gathering(hosts_of(ranks), turn).run();
    }
  }
}

/// What is expected is the same whatever the turns: that of all ranks in order, or of hosts in order.
TEST(BruckSchedule, GivesWhatAllRanksGiveBitForBit) {
  const std::vector<std::vector<int>> worlds = {{2, 2, 2}, {1, 1, 1, 1, 1}, {1, 3, 1}, {2, 1, 1, 2, 1, 1, 1}};
  for (const std::vector<int>& ranks : worlds) {
    const RankLayout layout = hosts_of(ranks);
    JobSpec spec;
    spec.size = layout.ranks();
    spec.elements = {0, 1, 13, 30};
    for (int rank = 0; rank < layout.ranks() && layout.is_hierarchy(); ++rank) {
      spec.first_of.push_back(layout.ranks_of(layout.host_of(rank)).front());
    }
    for (const std::size_t turn : {0, 1, 3}) {
      const auto jobs = [&] {
        std::vector<Job> made;
        for (const DType dtype :
             {DType::float32, DType::float16, DType::int32, DType::complex128, DType::float8_e5m2}) {
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::product, ReduceOp::max}) {
            spec.dtype = dtype;
            spec.reduce_op = op;
            spec.in_place = turn == 1;
            spec.prescale = op == ReduceOp::average ? 0.37 : 1.0;
            if (reduce::supports({dtype, op, 1.0, 1.0}).is_ok()) {
              made.push_back(make_job(spec));
            }
          }
        }
        return made;
      };
      const messages::MessageLimits limits{.one_turn = 1024, .gathered = 1 << 20, .turn = turn, .chunk = 256,
                                           .rank_order_to = 0};
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        EXPECT_EQ(MessageWorld(layout, 2, limits).run_by_hand(jobs(), seed), "");
      }
      EXPECT_EQ(MessageWorld(layout, 2, limits).run_threads(jobs()), "");
    }
  }
}

/// Parts of different lengths, none among them; in hosts and apart.
TEST(BruckSchedule, OfAnAllGatherPutsEachPartInItsPlace) {
  const std::vector<std::vector<int>> worlds = {{1, 1}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1, 1, 1, 1, 1}};
  for (const std::vector<int>& ranks : worlds) {
    const RankLayout layout = hosts_of(ranks);
    for (const std::size_t turn : {0, 1, 2, 100}) {
      const auto jobs = [&] {
        std::vector<Job> made;
        for (std::int64_t most = 0; most < 6; ++most) {
          JobSpec spec;
          spec.kind = OpKind::allgather;
          spec.size = layout.ranks();
          spec.elements = {1, 3};
          for (std::int64_t member = 0; member < 2; ++member) {
            spec.rows.emplace_back();
            for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
              spec.rows.back().push_back((rank + member) * 7 % (most + 1));
            }
          }
          spec.seed = static_cast<std::uint64_t>(most) + 1;
          made.push_back(make_job(spec));
        }
        return made;
      };
      const messages::MessageLimits limits{.one_turn = 4096, .turn = turn, .chunk = 256};
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        EXPECT_EQ(MessageWorld(layout, 2, limits).run_by_hand(jobs(), seed), "");
      }
      EXPECT_EQ(MessageWorld(layout, 2, limits).run_threads(jobs()), "");
    }
  }
}

TEST(BruckSchedule, IsChosenForWhatIsSmallOfManyHosts) {
  const messages::MessageLimits limits;
  const auto stages = [&](const RankLayout& layout, std::size_t bytes, const reduce::Reduction& reduction = {}) {
    const messages::AllreduceWay way = messages::allreduce_way(0, layout, limits, bytes, reduction);
    EXPECT_EQ(way.combinations.size(), way.schedule->combinations());
    return way.hears_through_others ? way.schedule->stages() : 0;
  };
  const RankLayout many = RankLayout::apart(256);
  EXPECT_EQ(stages(many, 8), 1 + best_turns(256, limits.turn).size());
  EXPECT_EQ(stages(many, limits.gathered / 256), 1 + best_turns(256, limits.turn).size());
  EXPECT_EQ(stages(many, limits.gathered / 256 + 1), 0u);
  EXPECT_EQ(stages(RankLayout::apart(8), limits.one_turn), 3u);
  EXPECT_EQ(stages(RankLayout::apart(8), limits.one_turn + 1), 0u);
  EXPECT_EQ(stages(RankLayout::apart(4), 8), 0u) << "one turn is the exchange";
  EXPECT_EQ(stages(hosts_of({2, 2, 2}), 8), 3u) << "in hosts, between them, in hosts";
}

}  // namespace
}  // namespace ronde::collectives
