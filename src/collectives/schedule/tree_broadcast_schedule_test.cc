// Broadcasts of what is small to many ranks: the stages of all ranks side by side, and the values.
#include "collectives/schedule/tree_broadcast_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "collectives/schedule/testing/message_world.h"
#include "collectives/schedule/turns.h"

namespace ronde::collectives {
namespace {

/// Whoever sends has heard it in an earlier stage; each but the root hears it once.
void expect_all_hear_it_once(int ranks, int root, std::size_t turn) {
  std::vector<std::unique_ptr<Schedule>> world;
  for (int rank = 0; rank < ranks; ++rank) {
    world.push_back(tree_broadcast_schedule(rank, ranks, root, 24, turn));
  }
  std::vector<bool> has(static_cast<std::size_t>(ranks));
  has[static_cast<std::size_t>(root)] = true;
  std::size_t messages = 0;
  for (std::size_t t = 0; t < world[0]->stages(); ++t) {
    std::map<std::pair<int, int>, std::size_t> sent;
    std::map<std::pair<int, int>, std::size_t> expected;
    for (int rank = 0; rank < ranks; ++rank) {
      Stage stage;
      world[static_cast<std::size_t>(rank)]->describe(t, stage);
      for (const Outgoing& each : stage.outgoing) {
        EXPECT_TRUE(has[static_cast<std::size_t>(rank)]) << rank << " of " << ranks << " sends what it has not got";
        sent[{rank, each.to}] += each.bytes();
      }
      for (const Incoming& each : stage.incoming) {
        expected[{each.from, rank}] += each.bytes();
      }
    }
    EXPECT_EQ(sent, expected) << "stage " << t;
    for (const auto& [pair, bytes] : sent) {
      EXPECT_FALSE(has[static_cast<std::size_t>(pair.second)]) << "twice";
      has[static_cast<std::size_t>(pair.second)] = true;
      ++messages;
    }
  }
  EXPECT_EQ(std::count(has.begin(), has.end(), true), ranks);
  EXPECT_EQ(messages, static_cast<std::size_t>(ranks - 1));
}

TEST(TreeBroadcastSchedule, ReachesEveryRankOnce) {
  for (int ranks = 2; ranks <= 40; ++ranks) {
    for (const int root : {0, 1, ranks - 1}) {
      for (const std::size_t turn : {0, 1, 2, 5, 100}) {
        expect_all_hear_it_once(ranks, root, turn);
      }
    }
  }
}

TEST(TreeBroadcastSchedule, GivesWhatTheRootHas) {
  for (const int size : {2, 3, 5, 7, 9}) {
    for (const std::size_t turn : {0, 1, 3}) {
      const auto jobs = [&] {
        std::vector<Job> made;
        for (int root = 0; root < size; ++root) {
          JobSpec spec;
          spec.kind = OpKind::broadcast;
          spec.size = size;
          spec.root = root;
          spec.in_place = root % 2 == 1;
          spec.elements = {0, 1, root, 30};
          spec.seed = static_cast<std::uint64_t>(root) + 1;
          made.push_back(make_job(spec));
        }
        return made;
      };
      const messages::MessageLimits limits{.one_turn = 4096, .turn = turn, .chunk = 256};
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        EXPECT_EQ(MessageWorld(size, 2, limits).run_by_hand(jobs(), seed), "");
      }
      EXPECT_EQ(MessageWorld(size, 2, limits).run_threads(jobs()), "");
    }
  }
}

}  // namespace
}  // namespace ronde::collectives
