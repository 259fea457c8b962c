// For tests: the schedules of all ranks side by side, and what schedule.h promises of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

using Schedules = std::vector<std::unique_ptr<Schedule>>;

struct Totals {
  std::vector<std::size_t> sent;  ///< bytes, by rank
  std::vector<std::size_t> messages;
};

/// Checks what schedule.h promises of stages.
inline Totals check(const Schedules& world) {
  Totals totals{std::vector<std::size_t>(world.size()), std::vector<std::size_t>(world.size())};
  for (std::size_t t = 0; t < world[0]->stages(); ++t) {
    std::map<std::pair<int, int>, std::size_t> sent;
    std::map<std::pair<int, int>, std::size_t> expected;
    for (std::size_t rank = 0; rank < world.size(); ++rank) {
      EXPECT_EQ(world[rank]->stages(), world[0]->stages());
      Stage stage;
      world[rank]->describe(t, stage);
      EXPECT_LE(stage.after, t);
      for (const Outgoing& each : stage.outgoing) {
        EXPECT_NE(each.to, static_cast<int>(rank));
        EXPECT_TRUE(sent.try_emplace({static_cast<int>(rank), each.to}, each.bytes()).second) << "twice";
        totals.sent[rank] += each.bytes();
        ++totals.messages[rank];
      }
      for (const Incoming& each : stage.incoming) {
        EXPECT_TRUE(expected.try_emplace({each.from, static_cast<int>(rank)}, each.bytes()).second) << "twice";
      }
    }
    EXPECT_EQ(sent, expected) << "stage " << t;
  }
  return totals;
}

inline Schedules world_of(int ranks, const std::function<std::unique_ptr<Schedule>(int)>& schedule) {
  Schedules world;
  for (int rank = 0; rank < ranks; ++rank) {
    world.push_back(schedule(rank));
  }
  return world;
}

inline bool writes_output(Work work) {
  return work != Work::none && work != Work::reduce_to_scratch && work != Work::copy_to_scratch &&
         work != Work::add_to_scratch;
}

/// Which bytes of the output each rank writes, each exactly once.
inline void expect_all_written_once(const Schedules& world, std::size_t bytes, int but = -1) {
  for (std::size_t rank = 0; rank < world.size(); ++rank) {
    std::vector<int> written(bytes);
    for (std::size_t t = 0; t < world[rank]->stages(); ++t) {
      Stage stage;
      world[rank]->describe(t, stage);
      std::vector<Piece> pieces;
      for (const Incoming& each : stage.incoming) {
        if (each.into.list != kKept) {
          pieces.push_back(each.into);
          pieces.push_back(each.rest);
        }
      }
      if (writes_output(stage.work)) {
        pieces.push_back(stage.own);
      }
      for (const Piece& piece : pieces) {
        for (std::size_t at = piece.begin; at < piece.end; ++at) {
          ++written[at];
        }
      }
    }
    if (static_cast<int>(rank) != but) {
      EXPECT_EQ(written, std::vector<int>(bytes, 1)) << "rank " << rank << " of " << world.size();
    }
  }
}

/// Layouts of up to four hosts of up to four ranks, these in turn, and unequal ones.
inline std::vector<RankLayout> some_layouts() {
  std::vector<RankLayout> layouts;
  for (int hosts = 2; hosts <= 4; ++hosts) {
    for (int each = 2; each <= 4; ++each) {
      std::vector<int> blocks;
      std::vector<int> in_turn;
      for (int rank = 0; rank < hosts * each; ++rank) {
        blocks.push_back(rank / each * each);
        in_turn.push_back(rank % hosts);
      }
      layouts.emplace_back(blocks);
      layouts.emplace_back(in_turn);
    }
  }
  layouts.emplace_back(std::vector<int>{0, 0, 2});
  layouts.emplace_back(std::vector<int>{0, 1, 0, 0, 0, 1, 0});
  layouts.emplace_back(std::vector<int>{0, 1, 1, 3, 3, 3, 1, 3, 8, 8});
  return layouts;
}

/// Bytes that each host sends to others.
inline std::vector<std::size_t> sent_by_hosts(const Schedules& world, const RankLayout& layout) {
  std::vector<std::size_t> sent(static_cast<std::size_t>(layout.hosts()));
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    Stage stage;
    for (std::size_t t = 0; t < world[0]->stages(); ++t) {
      stage.clear();
      world[static_cast<std::size_t>(rank)]->describe(t, stage);
      for (const Outgoing& each : stage.outgoing) {
        if (layout.host_of(each.to) != layout.host_of(rank)) {
          sent[static_cast<std::size_t>(layout.host_of(rank))] += each.bytes();
        }
      }
    }
  }
  return sent;
}

/// Follows what each rank knows of the others: of each how many stages it has finished. A message brings what its
/// sender knew when it might send it first.
class Knowledge {
 public:
  explicit Knowledge(const Schedules& world) : by_rank_(world.size()) {
    for (std::size_t rank = 0; rank < world.size(); ++rank) {
      by_rank_[rank].push_back(std::vector<std::size_t>(world.size()));
      by_rank_[rank].front()[rank] = kHeard;
    }
    for (std::size_t t = 0; t < world[0]->stages(); ++t) {
      for (std::size_t rank = 0; rank < world.size(); ++rank) {
        Stage stage;
        world[rank]->describe(t, stage);
        std::vector<std::size_t> known = by_rank_[rank].back();
        for (const Incoming& each : stage.incoming) {
          join(known, when_sent(world, static_cast<std::size_t>(each.from), t));
        }
        known[rank] = t + 1 + kHeard;
        by_rank_[rank].push_back(std::move(known));
      }
    }
  }

  /// Of a rank that has finished so many stages.
  bool has_heard_all(std::size_t rank, std::size_t finished) const {
    const std::vector<std::size_t>& known = by_rank_[rank][finished];
    return std::all_of(known.begin(), known.end(), [](std::size_t each) { return each >= kHeard; });
  }
  /// What comes from `from` in a stage comes when that one knows that `other` has finished `count` stages.
  bool comes_after(const Schedules& world, std::size_t from, std::size_t stage, std::size_t other,
                   std::size_t count) const {
    return when_sent(world, from, stage)[other] >= count + kHeard;
  }
  bool knows(std::size_t rank, std::size_t finished, std::size_t other, std::size_t count) const {
    return by_rank_[rank][finished][other] >= count + kHeard;
  }

 private:
  static constexpr std::size_t kHeard = 1;  ///< something, though it may have finished no stage; 0: nothing was heard

  static void join(std::vector<std::size_t>& known, const std::vector<std::size_t>& others) {
    for (std::size_t i = 0; i < known.size(); ++i) {
      known[i] = std::max(known[i], others[i]);
    }
  }
  const std::vector<std::size_t>& when_sent(const Schedules& world, std::size_t from, std::size_t t) const {
    Stage stage;
    world[from]->describe(t, stage);
    return by_rank_[from][stage.after];
  }

  std::vector<std::vector<std::vector<std::size_t>>> by_rank_;  ///< rank, stages that it has finished, other rank
};

/// What schedule.h promises of hears_all_by() and told(), however early messages are sent.
inline void expect_nobody_writes_before_it_has_heard_from_all(const Schedules& world) {
  const Knowledge knowledge(world);
  for (std::size_t rank = 0; rank < world.size(); ++rank) {
    for (std::size_t t = 0; t < world[rank]->stages(); ++t) {
      Stage stage;
      world[rank]->describe(t, stage);
      bool writes = writes_output(stage.work);
      for (const Incoming& each : stage.incoming) {
        writes |= each.into.list >= 0;
      }
      EXPECT_TRUE(knowledge.has_heard_all(rank, t + 1) || !writes) << "rank " << rank << " in stage " << t;
    }
    EXPECT_TRUE(knowledge.has_heard_all(rank, world[rank]->hears_all_by())) << "rank " << rank;
  }
  for (const auto& schedule : world) {
    for (const int told : schedule->told()) {
      const auto& theirs = *world[static_cast<std::size_t>(told)];
      EXPECT_EQ(theirs.hears_all_by(), schedule->telling_stage() + 1) << "it waits for it in that stage";
    }
  }
}

/// What schedule.h promises of keeps_what_it_sends() and written_ahead(), of all-reduces whose outputs lie where their
/// inputs do: who writes over what a rank has sent knows that it was received, and what a rank has yet to send nobody
/// writes over once it may be sent.
inline void expect_what_is_sent_is_kept(const Schedules& world) {
  const Knowledge knowledge(world);
  struct Sent {
    std::size_t stage, after;
    int to;
    Piece piece;
  };
  const auto overlap = [](const Piece& a, const Piece& b) {
    return (a.list == kScratch) == (b.list == kScratch) && std::max(a.begin, b.begin) < std::min(a.end, b.end);
  };
  for (std::size_t rank = 0; rank < world.size(); ++rank) {
    std::vector<Sent> sent;
    for (std::size_t t = 0; t < world[rank]->stages(); ++t) {
      Stage stage;
      world[rank]->describe(t, stage);
      for (const Outgoing& each : stage.outgoing) {
        sent.push_back({t, stage.after, each.to, each.from});
        sent.push_back({t, stage.after, each.to, each.rest});
      }
    }
    for (std::size_t t = 0; t < world[rank]->stages(); ++t) {
      Stage stage;
      world[rank]->describe(t, stage);
      const auto expect_received = [&](const Piece& written, int from) {
        for (const Sent& each : sent) {
          if (!overlap(each.piece, written) || each.after > t) {
            continue;
          }
          ASSERT_LE(each.stage, t) << "rank " << rank << " writes in stage " << t << " over what stage " << each.stage
                                   << " sends, perhaps before";
          const auto to = static_cast<std::size_t>(each.to);
          EXPECT_TRUE(from >= 0 ? knowledge.comes_after(world, static_cast<std::size_t>(from), t, to, each.stage + 1)
                                : knowledge.knows(rank, t + 1, to, each.stage + 1))
              << "rank " << rank << " in stage " << t << " writes over what it has sent to " << to << " in stage "
              << each.stage;
        }
      };
      const auto in_scratch = [&](const Piece& piece) {
        const std::size_t begin = stage.scratch + piece.begin - stage.own.begin;
        return Piece{kScratch, begin, begin + piece.bytes()};
      };
      for (const Incoming& each : stage.incoming) {
        if (each.into.list != kKept) {
          const bool may_be_early = world[rank]->written_ahead() > 0 && each.into.list != kScratch;
          expect_received(each.into, may_be_early ? each.from : -1);
          expect_received(each.rest, may_be_early ? each.from : -1);
        }
      }
      for (const Incoming& each : stage.added) {
        expect_received(each.into, -1);
        expect_received(each.rest, -1);
      }
      if (stage.work == Work::reduce_to_scratch || stage.work == Work::copy_to_scratch) {
        expect_received(in_scratch(stage.own), -1);
        expect_received(in_scratch(stage.rest), -1);
      } else if (writes_output(stage.work)) {
        expect_received(stage.own, -1);
      }
    }
  }
}

}  // namespace ronde::collectives
