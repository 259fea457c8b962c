#include "plan/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ronde::plan {
namespace {

/// Numbers that are easy to tell apart in a sum.
Fabric telling_fabric() {
  Fabric fabric;
  fabric.latency_us = 100;
  fabric.overhead_us = 10;
  fabric.link_gbit = 8;  // a byte a nanosecond
  fabric.cpu_ns_per_byte = 0.25;
  fabric.reduce_ns_per_byte = 0.125;
  fabric.memory_us = 1;
  fabric.memory_ns_per_byte = 0.0625;
  return fabric;
}

double one(const Cluster& cluster, std::size_t bytes, const Fabric& of = telling_fabric(),
           Extent extent = Extent::chosen) {
  return simulate(cluster, of, {{.name = "", .bytes = bytes}}, extent).front();
}

/// One message of b bytes, from the begin of its sending to the end of its receiving, on an idle link.
double message_ns(double b) { return (10e3 + 0.25 * b) + 100e3 + b + (10e3 + 0.25 * b); }

TEST(Simulation, TwoRanksExchangeSmallTensors) {
  // Each sends the other all, and adds two values.
  EXPECT_DOUBLE_EQ(one({2, 1}, 8192), message_ns(8192) + 2 * 0.125 * 8192);
}

TEST(Simulation, TwoRanksShareTheWorkOnLargeTensors) {
  // Each sends half, adds two halves, sends its sum.
  const double half = 32768;
  EXPECT_DOUBLE_EQ(one({2, 1}, 65536), 2 * message_ns(half) + 2 * 0.125 * half);
}

TEST(Simulation, ManyRanksSendOneAfterTheOther) {
  // The last of three messages leaves the processor after three sends, finds the link idle, since a processor takes
  // longer for one than the link does, and is taken in after the other two.
  const double send = 10e3 + 0.25 * 1024;
  EXPECT_DOUBLE_EQ(one({4, 1}, 1024), 3 * send + 100e3 + 1024 + send + 4 * 0.125 * 1024);
}

TEST(Simulation, ALinkCarriesOneMessageAfterTheOther) {
  Fabric slow = telling_fabric();
  slow.overhead_us = 0;
  slow.cpu_ns_per_byte = slow.reduce_ns_per_byte = 0;
  slow.link_gbit = 0.008;  // a microsecond a byte
  EXPECT_NEAR(one({4, 1}, 1024, slow), 100e3 + 3 * 1024e3, 1);
}

TEST(Simulation, ALinkTakesTheGapForEachMessage) {
  Fabric gaps = telling_fabric();
  gaps.overhead_us = 0;
  gaps.cpu_ns_per_byte = gaps.reduce_ns_per_byte = 0;
  gaps.gap_us = 50;
  EXPECT_NEAR(one({4, 1}, 1024, gaps), 3 * 50e3 + 100e3, 1);
}

TEST(Simulation, ConnectionsThatShareALinkMakeItSlower) {
  Fabric wire;
  wire.link_gbit = 8;
  Fabric sharing = wire;
  sharing.sharing_loss = 0.1;
  EXPECT_DOUBLE_EQ(one({2, 1}, 1 << 20, sharing), one({2, 1}, 1 << 20, wire)) << "a connection of its own";
  EXPECT_DOUBLE_EQ(one({3, 1}, 3 << 20, sharing), 1.1 * one({3, 1}, 3 << 20, wire));
  EXPECT_DOUBLE_EQ(one({5, 1}, 5 << 20, sharing), 1.2 * one({5, 1}, 5 << 20, wire));
  EXPECT_DOUBLE_EQ(one({5, 1}, 5 << 16, sharing), one({5, 1}, 5 << 16, wire)) << "up to the window";
}

TEST(Simulation, RanksOfAHostShareItsLink) {
  Fabric wire = telling_fabric();
  wire.latency_us = wire.overhead_us = wire.cpu_ns_per_byte = wire.reduce_ns_per_byte = 0;
  wire.memory_us = wire.memory_ns_per_byte = 0;
  // Of N bytes a host of three sends and receives 2 * 2/3 N, however many of its ranks do.
  const double bytes = 12 << 20;
  for (const int ranks : {1, 2, 4}) {
    EXPECT_NEAR(one({3, ranks}, 12 << 20, wire), 4.0 / 3 * bytes, 0.05 * bytes) << ranks;
  }
}

TEST(Simulation, BucketsComeOneAfterTheOtherOnTheWire) {
  const std::vector<double> done = simulate({2, 1}, telling_fabric(), {{"", 4 << 20, 1, 0}, {"", 4 << 20, 1, 0}});
  EXPECT_LT(done[0], done[1]);
  EXPECT_GT(done[1], 1.5 * one({2, 1}, 4 << 20));
  EXPECT_LT(done[1], 2.1 * one({2, 1}, 4 << 20));
}

TEST(Simulation, ABucketBeginsWhenItIsReady) {
  const std::vector<double> done = simulate({2, 1}, telling_fabric(), {{"", 8192, 1, 5e6}});
  EXPECT_DOUBLE_EQ(done[0], 5e6 + one({2, 1}, 8192));
}

TEST(Simulation, OneHostStandsForAll) {
  for (const int hosts : {3, 4, 5, 8, 13, 16, 32}) {
    for (const int ranks : {1, 2, 3}) {
      for (const std::size_t bytes :
           {std::size_t{64}, std::size_t{20} << 10, std::size_t{1} << 20, std::size_t{24} << 20}) {
        const double whole = one({hosts, ranks}, bytes, telling_fabric(), Extent::whole);
        const double folded = one({hosts, ranks}, bytes, telling_fabric(), Extent::folded);
        EXPECT_NEAR(folded, whole, 0.05 * whole) << hosts << " hosts of " << ranks << ", " << bytes << " bytes";
      }
    }
  }
}

TEST(Simulation, OneHostStandsForAllWhereNotAllHaveAPart) {
  // Parts are whole lines of 128 bytes: of 20 KiB 80 hosts get 256 bytes each and 20 nothing, of a chunk of 1 MiB two.
  for (const std::size_t bytes : {std::size_t{20} << 10, std::size_t{300} << 10, std::size_t{1} << 20}) {
    const double whole = one({100, 2}, bytes, telling_fabric(), Extent::whole);
    EXPECT_NEAR(one({100, 2}, bytes, telling_fabric(), Extent::folded), whole, 0.05 * whole) << bytes;
  }
}

TEST(Simulation, OneHostStandsForAllWithSeveralBuckets) {
  const std::vector<StepBucket> buckets{{"", 3 << 20, 1, 0}, {"", 100 << 10, 1, 1e6}, {"", 512, 1, 2e6}};
  for (const int hosts : {9, 12, 24}) {
    const std::vector<double> whole = simulate({hosts, 2}, telling_fabric(), buckets, Extent::whole);
    const std::vector<double> folded = simulate({hosts, 2}, telling_fabric(), buckets, Extent::folded);
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      EXPECT_NEAR(folded[i], whole[i], 0.03 * whole[i]) << hosts << " hosts, bucket " << i;
    }
  }
}

TEST(Simulation, MoreBytesTakeLongerAndABetterLinkLess) {
  for (const Cluster& cluster : {Cluster{2, 1}, Cluster{2, 2}, Cluster{3, 2}, Cluster{16, 1}}) {
    double before = 0;
    for (std::size_t bytes = 64 << 10; bytes <= std::size_t{64} << 20; bytes *= 4) {
      const double now = one(cluster, bytes);
      EXPECT_GT(now, before) << cluster.hosts << "x" << cluster.ranks_per_host << ", " << bytes;
      before = now;
      Fabric better = telling_fabric();
      better.link_gbit *= 2;
      EXPECT_LE(one(cluster, bytes, better), now * (1 + 1e-9));
    }
  }
}

TEST(Simulation, ThousandsOfHostsEnd) {
  const double time = one({4096, 1}, 100 << 20);
  // Both ways a host's link carries nearly the whole tensor, and a processor as much at a quarter of that for each
  // byte; each of the 4095 messages of both phases costs it an overhead on either side.
  const double overheads = 2 * 2 * 4095 * 10e3;
  EXPECT_GT(time, overheads);
  EXPECT_LT(time, overheads + 4.0 * (100 << 20));
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{20} << 10, std::size_t{1} << 20, std::size_t{9} << 20}) {
    for (const Cluster& cluster : {Cluster{1000, 8}, Cluster{4096, 2}, Cluster{5000, 1}}) {
      EXPECT_TRUE(std::isfinite(one(cluster, bytes)))
          << cluster.hosts << "x" << cluster.ranks_per_host << ", " << bytes;
    }
  }
}

}  // namespace
}  // namespace ronde::plan
