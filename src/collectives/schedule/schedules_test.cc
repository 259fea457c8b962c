// The schedules of all ranks, side by side, as values: that what one sends the other expects, that nobody waits for
// what cannot come, and how many bytes travel. What comes out of them: message_conformance_test.cc.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "collectives/schedule/barrier_schedule.h"
#include "collectives/schedule/carried_parts.h"
#include "collectives/schedule/chain_schedule.h"
#include "collectives/schedule/exchange_schedule.h"
#include "collectives/schedule/hierarchical_schedule.h"
#include "collectives/schedule/host_broadcast_schedule.h"
#include "collectives/schedule/host_gather_schedule.h"
#include "collectives/schedule/host_reduce_scatter_schedule.h"
#include "collectives/schedule/testing/schedule_checks.h"
#include "collectives/schedule/two_phase_schedule.h"

namespace ronde::collectives {
namespace {

constexpr std::size_t kChunk = 256;

TEST(TwoPhaseSchedule, OfAnAllreduceSendsTwiceTheTensorAtMost) {
  for (int ranks = 2; ranks <= 32; ++ranks) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{127}, std::size_t{128}, kChunk * 3, kChunk * 70 + 5}) {
      const Schedules world =
          world_of(ranks, [&](int rank) { return two_phase_allreduce_schedule(rank, ranks, bytes, kChunk); });
      const Totals totals = check(world);
      expect_all_written_once(world, bytes);
      const std::size_t all = std::accumulate(totals.sent.begin(), totals.sent.end(), std::size_t{0});
      EXPECT_EQ(all, 2 * bytes * static_cast<std::size_t>(ranks - 1)) << "reduce-scatter and all-gather, of all ranks";
      for (const std::size_t messages : totals.messages) {
        EXPECT_GE(messages, static_cast<std::size_t>(ranks - 1)) << "each tells each";
      }
    }
  }
}

TEST(TwoPhaseSchedule, OfABroadcastSendsNoByteTwiceToAnybody) {
  for (int ranks = 2; ranks <= 32; ranks += ranks < 9 ? 1 : 7) {
    for (int root = 0; root < ranks; root += ranks < 9 ? 1 : 5) {
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{129}, kChunk * 3, kChunk * 50 + 5}) {
        const Schedules world =
            world_of(ranks, [&](int rank) { return two_phase_broadcast_schedule(rank, ranks, root, bytes, kChunk); });
        const Totals totals = check(world);
        expect_all_written_once(world, bytes);
        EXPECT_EQ(totals.sent[static_cast<std::size_t>(root)], bytes);
        const std::size_t all = std::accumulate(totals.sent.begin(), totals.sent.end(), std::size_t{0});
        EXPECT_EQ(all, bytes * static_cast<std::size_t>(ranks - 1));
      }
    }
  }
}

TEST(RankLayout, NumbersHostsByTheirLowestRanks) {
  const RankLayout layout({0, 1, 0, 3, 1, 0});
  EXPECT_EQ(layout.hosts(), 3);
  EXPECT_EQ(layout.ranks_of(0), (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(layout.ranks_of(1), (std::vector<int>{1, 4}));
  EXPECT_EQ(layout.host_of(4), 1);
  EXPECT_EQ(layout.local(5), 2);
  EXPECT_EQ(layout.fewest(), 1u);
  EXPECT_EQ(layout.most(), 3u);
  EXPECT_TRUE(layout.is_hierarchy());
  EXPECT_FALSE(layout.is_in_order());
  EXPECT_TRUE(RankLayout({0, 0, 2, 2, 2}).is_in_order());
  EXPECT_FALSE(RankLayout({0, 0, 2, 2, 0}).is_in_order());
  EXPECT_FALSE(RankLayout({0, 0, 0}).is_hierarchy());
  EXPECT_FALSE(RankLayout::apart(3).is_hierarchy());
}

/// Of which what is lost by rounding to lines is little.
constexpr std::size_t kLargeTensor = std::size_t{16} << 20;
constexpr std::size_t kLargeSlice = std::size_t{256} << 10;

TEST(HierarchicalSchedule, SendsOverTheWireWhatHostsMust) {
  for (const RankLayout& layout : some_layouts()) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{129}, kChunk * 3, kChunk * 70 + 5, kLargeTensor}) {
      for (const std::size_t rails : {std::size_t{1}, layout.fewest()}) {
        const std::size_t slice = bytes == kLargeTensor ? kLargeSlice : kChunk;
        const Schedules world = world_of(layout.ranks(), [&](int rank) {
          return hierarchical_allreduce_schedule(rank, layout, bytes, slice, rails);
        });
        check(world);
        if (bytes != kLargeTensor) {
          expect_all_written_once(world, bytes);
        }
        const std::vector<std::size_t> sent = sent_by_hosts(world, layout);
        const auto hosts = static_cast<std::size_t>(layout.hosts());
        EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), std::size_t{0}), 2 * (hosts - 1) * bytes);
        for (const std::size_t each : sent) {
          const double least = 2.0 * static_cast<double>((hosts - 1) * bytes) / static_cast<double>(hosts);
          if (bytes == kLargeTensor) {
            EXPECT_NEAR(static_cast<double>(each), least, 0.02 * least) << "of " << layout.ranks() << " ranks";
          }
        }
      }
    }
  }
}

TEST(HierarchicalSchedule, CutsLessOftenTheMoreHostsThereAre) {
  constexpr std::size_t kLeast = std::size_t{256} << 10;
  constexpr std::size_t kMegabyte = std::size_t{1} << 20;
  const auto slice = [](std::size_t bytes, std::size_t hosts) { return hierarchical_slice(bytes, 4, hosts, kLeast); };
  EXPECT_EQ(slice(256 * kMegabyte, 8), kLeast) << "as before";
  EXPECT_EQ(slice(1, 4096), kLeast);
  EXPECT_EQ(slice(64 * kMegabyte, 16), kMegabyte);
  EXPECT_EQ(slice(64 * kMegabyte, 32), 2 * kMegabyte);
  EXPECT_EQ(slice(16 * kMegabyte, 128), 2 * kMegabyte);
  EXPECT_EQ(slice(64 * kMegabyte, 128), 4 * kMegabyte);
  EXPECT_EQ(slice(1024 * kMegabyte, 4096), 4 * kMegabyte) << "partial sums are kept in memory";
  EXPECT_EQ(hierarchical_slice(64 * kMegabyte, 4, 128, 16 * kMegabyte), 16 * kMegabyte) << "more is asked for";
  EXPECT_EQ(hierarchical_slice(64 * kMegabyte, 4, 128, 3 * kLeast), 6 * kLeast * 2) << "of any number of lines";
}

TEST(HierarchicalSchedule, NobodyWritesBeforeItHasHeardFromAll) {
  for (const RankLayout& layout : some_layouts()) {
    for (const std::size_t bytes : {std::size_t{1}, kChunk * 70 + 5}) {
      expect_nobody_writes_before_it_has_heard_from_all(world_of(layout.ranks(), [&](int rank) {
        return hierarchical_allreduce_schedule(rank, layout, bytes, kChunk, layout.fewest());
      }));
    }
  }
}

/// Of two hosts in order, with equal and unequal numbers of ranks.
std::vector<RankLayout> two_hosts_in_order() {
  std::vector<RankLayout> layouts;
  for (int first = 1; first <= 5; ++first) {
    for (int second = 1; second <= 5; ++second) {
      std::vector<int> first_of(static_cast<std::size_t>(first + second), first);
      std::fill_n(first_of.begin(), first, 0);
      if (first + second > 2) {
        layouts.emplace_back(first_of);
      }
    }
  }
  return layouts;
}

TEST(ChainSchedule, SendsTheTensorOnceEachWay) {
  for (const RankLayout& layout : two_hosts_in_order()) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{127}, std::size_t{129}, kChunk - 1, kChunk, kChunk + 1,
                                    kChunk * 3, kChunk * 70 + 5}) {
      for (const std::size_t rails : {std::size_t{1}, layout.fewest()}) {
        const Schedules world = world_of(
            layout.ranks(), [&](int rank) { return chain_allreduce_schedule(rank, layout, bytes, kChunk, rails); });
        check(world);
        expect_all_written_once(world, bytes);
        expect_nobody_writes_before_it_has_heard_from_all(world);
        EXPECT_EQ(sent_by_hosts(world, layout), (std::vector<std::size_t>{bytes, bytes}));
      }
    }
  }
}

/// Followed through messages and scratch memory: the list of ranks that a byte of the output was made of.
TEST(ChainSchedule, AddsInTheOrderOfRanks) {
  for (const RankLayout& layout : two_hosts_in_order()) {
    std::vector<int> all(static_cast<std::size_t>(layout.ranks()));
    std::iota(all.begin(), all.end(), 0);
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      const auto schedule = chain_allreduce_schedule(rank, layout, kChunk * 10, kChunk, layout.fewest());
      if (schedule->inputs(1).empty()) {
        continue;
      }
      const int before = schedule->inputs(1).front();
      const auto theirs = chain_allreduce_schedule(before, layout, kChunk * 10, kChunk, layout.fewest());
      std::vector<int> added = theirs->inputs(0);
      added.insert(added.end(), schedule->inputs(1).begin() + 1, schedule->inputs(1).end());
      EXPECT_EQ(added, all);
    }
  }
}

TEST(ChainSchedule, CutsSoThatBothDirectionsAreInUse) {
  constexpr std::size_t kMost = std::size_t{256} << 10;
  EXPECT_EQ(chain_slice(1, 1, kMost), std::size_t{16} << 10);
  EXPECT_EQ(chain_slice(std::size_t{1} << 20, 2, kMost), std::size_t{64} << 10);
  EXPECT_EQ(chain_slice(std::size_t{64} << 20, 2, kMost), kMost);
  EXPECT_EQ(chain_slice(1000, 1, 256), 256u);
}

TEST(HostBroadcastSchedule, SendsTheTensorOnceToEachHost) {
  for (const RankLayout& layout : some_layouts()) {
    for (int root = 0; root < layout.ranks(); ++root) {
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{129}, kChunk * 3, kChunk * 70 + 5}) {
        const Schedules world = world_of(
            layout.ranks(), [&](int rank) { return host_broadcast_schedule(rank, layout, root, bytes, kChunk); });
        check(world);
        expect_all_written_once(world, bytes);
        const std::vector<std::size_t> sent = sent_by_hosts(world, layout);
        EXPECT_EQ(sent[static_cast<std::size_t>(layout.host_of(root))], bytes);
        EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), std::size_t{0}),
                  bytes * static_cast<std::size_t>(layout.hosts() - 1));
      }
    }
  }
}

TEST(HostGatherSchedule, SendsEachPartOnceToEachHost) {
  for (const RankLayout& layout : some_layouts()) {
    for (const std::size_t scale : {std::size_t{0}, std::size_t{1}, std::size_t{100}, kChunk * 3}) {
      std::vector<std::size_t> parts;
      for (int rank = 0; rank < layout.ranks(); ++rank) {
        parts.push_back(scale * static_cast<std::size_t>(rank * 7 % 5));  // some have nothing
      }
      const Schedules world = world_of(layout.ranks(), [&](int rank) {
        return host_gather_schedule(HostParts{rank, layout, parts, kChunk});
      });
      check(world);
      const std::vector<std::size_t> sent = sent_by_hosts(world, layout);
      for (int host = 0; host < layout.hosts(); ++host) {
        std::size_t own = 0;
        for (const int rank : layout.ranks_of(host)) {
          own += parts[static_cast<std::size_t>(rank)];
        }
        EXPECT_EQ(sent[static_cast<std::size_t>(host)], own * static_cast<std::size_t>(layout.hosts() - 1));
      }
    }
  }
}

TEST(HostReduceScatterSchedule, SendsOnePartialResultOfEachHost) {
  for (const RankLayout& layout : some_layouts()) {
    for (const std::size_t scale : {std::size_t{0}, std::size_t{1}, std::size_t{100}, kChunk * 3, kChunk * 20}) {
      std::vector<std::size_t> parts;
      std::size_t all = 0;
      for (int rank = 0; rank < layout.ranks(); ++rank) {
        parts.push_back(scale * static_cast<std::size_t>(rank * 7 % 5));  // some have nothing
        all += parts.back();
      }
      const Schedules world = world_of(layout.ranks(), [&](int rank) {
        return host_reduce_scatter_schedule(HostParts{rank, layout, parts, kChunk});
      });
      check(world);
      const std::vector<std::size_t> sent = sent_by_hosts(world, layout);
      for (int host = 0; host < layout.hosts(); ++host) {
        std::size_t own = 0;
        for (const int rank : layout.ranks_of(host)) {
          own += parts[static_cast<std::size_t>(rank)];
        }
        EXPECT_EQ(sent[static_cast<std::size_t>(host)], all - own) << "what is of other hosts, once";
      }
    }
  }
}

TEST(HostReduceScatterSchedule, OfAReduceSendsTheTensorOnceFromEachHost) {
  for (const RankLayout& layout : some_layouts()) {
    for (int root = 0; root < layout.ranks(); ++root) {
      std::vector<std::size_t> parts(static_cast<std::size_t>(layout.ranks()));
      parts[static_cast<std::size_t>(root)] = kChunk * 70 + 5;
      const Schedules world = world_of(layout.ranks(), [&](int rank) {
        return host_reduce_scatter_schedule(HostParts{rank, layout, parts, kChunk});
      });
      check(world);
      const std::vector<std::size_t> sent = sent_by_hosts(world, layout);
      for (int host = 0; host < layout.hosts(); ++host) {
        EXPECT_EQ(sent[static_cast<std::size_t>(host)], host == layout.host_of(root) ? 0 : kChunk * 70 + 5);
      }
    }
  }
}

TEST(CarriedParts, AreCutSoThatWhatIsPassedOnIsNoLargerThanOtherMessages) {
  constexpr std::size_t kMost = std::size_t{256} << 10;
  EXPECT_EQ(carried_slice(RankLayout({0, 0, 2, 2}), kMost), kMost / 2);
  EXPECT_EQ(carried_slice(RankLayout({0, 0, 0, 3}), kMost), kMost / 6 / 128 * 128 + 128);
  EXPECT_EQ(carried_slice(RankLayout({0, 0, 2, 2}), 256), 256u);
  std::vector<int> many;
  for (int rank = 0; rank < 256; ++rank) {
    many.push_back(rank / 2 * 2);
  }
  EXPECT_EQ(carried_slice(RankLayout(many), kMost), std::size_t{16} << 10) << "a message has its price";
}

TEST(ExchangeSchedule, SendsWhatEachHasForEach) {
  for (int ranks = 1; ranks <= 32; ++ranks) {
    const auto bytes_between = [](std::size_t from, std::size_t to) { return (from * 7 + to * 3) % 5 * kChunk / 2; };
    const auto count = static_cast<std::size_t>(ranks);
    const Schedules world = world_of(ranks, [&](int rank) {
      Exchange exchange;
      exchange.rank = rank;
      exchange.chunk = kChunk;
      for (std::size_t peer = 0; peer < count; ++peer) {
        exchange.outgoing.push_back(bytes_between(static_cast<std::size_t>(rank), peer));
        exchange.incoming.push_back(bytes_between(peer, static_cast<std::size_t>(rank)));
        for (std::size_t other = 0; other < count; ++other) {
          exchange.longest = std::max(exchange.longest, bytes_between(peer, other));
        }
      }
      return exchange_schedule(exchange);
    });
    const Totals totals = check(world);
    for (std::size_t from = 0; from < count; ++from) {
      std::size_t expected = 0;
      for (std::size_t to = 0; to < count; ++to) {
        expected += from == to ? 0 : bytes_between(from, to);
      }
      EXPECT_EQ(totals.sent[from], expected);
    }
  }
}

TEST(BarrierSchedule, HearsFromEverybodyInLogarithmicallyManyStages) {
  for (int ranks = 1; ranks <= 32; ++ranks) {
    const Schedules world = world_of(ranks, [&](int rank) { return barrier_schedule(rank, ranks); });
    check(world);
    std::vector<std::set<int>> heard;
    for (int rank = 0; rank < ranks; ++rank) {
      heard.push_back({rank});
    }
    for (std::size_t t = 0; t < world[0]->stages(); ++t) {
      const std::vector<std::set<int>> before = heard;
      for (std::size_t rank = 0; rank < world.size(); ++rank) {
        Stage stage;
        world[rank]->describe(t, stage);
        EXPECT_EQ(stage.after, t) << "what it passes on it must have heard";
        for (const Incoming& each : stage.incoming) {
          const auto& theirs = before[static_cast<std::size_t>(each.from)];
          heard[rank].insert(theirs.begin(), theirs.end());
        }
      }
    }
    for (const auto& each : heard) {
      EXPECT_EQ(each.size(), world.size());
    }
    EXPECT_LE(world[0]->stages(), 5u);
  }
}

}  // namespace
}  // namespace ronde::collectives
