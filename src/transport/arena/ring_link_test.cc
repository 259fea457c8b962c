#include "transport/arena/ring_link.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "support/effort.h"
#include "transport/bell.h"
#include "transport/loopback/loopback.h"

namespace ronde::transport {
namespace {

using Message = std::vector<std::byte>;

/// Bytes that a message of this number and length must consist of.
Message make_message(std::uint64_t number, std::size_t bytes) {
  Message message(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    message[i] = static_cast<std::byte>((number + i) * 0x9e3779b97f4a7c15u >> 56);
  }
  return message;
}

struct Pair {
  explicit Pair(std::size_t ring_bytes = 16384) {
    RegionLayout layout = RegionLayout::for_size(2);
    layout.ring_bytes = ring_bytes;
    arenas = make_loopback_world(2, layout);
    for (auto& arena : arenas) {
      transports.push_back(make_ring_transport(*arena));
    }
  }
  Link& link(int rank) { return transports[static_cast<std::size_t>(rank)]->link(1 - rank); }
  HostArena& arena(int rank) { return *arenas[static_cast<std::size_t>(rank)]; }

  std::vector<std::unique_ptr<HostArena>> arenas;
  std::vector<std::unique_ptr<Transport>> transports;
};

TEST(RingLink, CarriesMessagesOfEverySizeAroundTheRings) {
  Pair pair(64);
  Message got;
  EXPECT_FALSE(pair.link(1).receive(got));
  for (std::size_t bytes = 0; bytes < 300; ++bytes) {
    const Message sent = make_message(bytes, bytes);
    pair.link(0).send(sent);
    int turns = 0;
    while (!pair.link(1).receive(got)) {
      pair.link(0).flush();
      ASSERT_LT(++turns, 100);
    }
    ASSERT_EQ(got, sent);
    EXPECT_TRUE(pair.link(0).flush());
  }
  EXPECT_FALSE(pair.link(1).receive(got));
  EXPECT_TRUE(pair.link(0).status());
  EXPECT_TRUE(pair.link(1).status());
}

TEST(RingLink, KeepsWhatHasNoRoom) {
  Pair pair(64);
  std::vector<Message> sent;
  for (std::size_t i = 0; i < 50; ++i) {
    sent.push_back(make_message(i, 20));
    pair.link(0).send(sent.back());
  }
  EXPECT_FALSE(pair.link(0).flush());
  Message got;
  for (const Message& each : sent) {
    while (!pair.link(1).receive(got)) {
      pair.link(0).flush();
    }
    EXPECT_EQ(got, each);
  }
  EXPECT_TRUE(pair.link(0).flush());
}

TEST(RingLink, WhatIsLentIsReadUntilThereIsRoomForIt) {
  Pair pair(1024);
  for (const bool is_kept : {false, true}) {
    Message first = make_message(1, 40);
    Message second = make_message(2, 100'000);
    Message all = first;
    all.insert(all.end(), second.begin(), second.end());
    const std::span<const std::byte> parts[] = {first, second};
    pair.link(0).send_lent(parts);
    first.assign(first.size(), std::byte{0});  // the first part is never lent
    EXPECT_FALSE(pair.link(0).flush());
    second.back() ^= std::byte{1};
    all.back() = second.back();
    if (is_kept) {
      pair.link(0).send(make_message(3, 5));  // it goes behind
      second.assign(second.size(), std::byte{0});
    }
    Message got;
    for (int turns = 0; !pair.link(1).receive(got); ++turns) {
      pair.link(0).flush();
      ASSERT_LT(turns, 1000);
    }
    EXPECT_TRUE(got == all) << is_kept;
    pair.link(1).recycle(std::move(got));
    EXPECT_TRUE(pair.link(0).flush());
    EXPECT_EQ(pair.link(1).receive(got), is_kept);
  }
}

TEST(RingLink, WakesTheReaderWhenItPublishes) {
  Pair pair;
  Sleeper(pair.arena(1).control(1).bell).arm(kEngineSleeps);
  pair.link(0).send(make_message(1, 10));
  EXPECT_EQ(pair.arena(1).control(1).bell.state.load(), kAwake);
}

TEST(RingLink, WakesAStarvedWriterAndNoOther) {
  Pair pair(64);
  Message got;
  pair.link(0).send(make_message(1, 10));
  Sleeper(pair.arena(0).control(0).bell).arm(kEngineSleeps);
  ASSERT_TRUE(pair.link(1).receive(got));
  EXPECT_EQ(pair.arena(0).control(0).bell.state.load(), kEngineSleeps) << "nothing was kept, nobody needed room";

  pair.link(0).send(make_message(2, 100));
  Sleeper(pair.arena(0).control(0).bell).arm(kEngineSleeps);
  EXPECT_FALSE(pair.link(1).receive(got));
  EXPECT_EQ(pair.arena(0).control(0).bell.state.load(), kAwake);
  EXPECT_TRUE(pair.link(0).flush());
  ASSERT_TRUE(pair.link(1).receive(got));
  EXPECT_EQ(got, make_message(2, 100));
}

/// The words of the ring from rank 0 to rank 1.
std::atomic<std::uint64_t>& head_word(Pair& pair) {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(pair.arena(0).region(0) +
                                                        pair.arena(0).layout().ring_offset(1));
}
std::atomic<std::uint64_t>& tail_word(Pair& pair) {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(pair.arena(0).region(1) +
                                                        pair.arena(0).layout().tail_offset(0));
}

TEST(RingLink, ImpossibleCountersAreAnErrorAndNotARead) {
  for (const std::uint64_t wrong : {std::uint64_t{65}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    Pair pair(64);
    Message got;
    head_word(pair).store(wrong);
    EXPECT_FALSE(pair.link(1).receive(got));
    EXPECT_EQ(pair.link(1).status().code(), Code::internal);
    EXPECT_EQ(pair.link(1).status().failed_rank(), 0);
    EXPECT_FALSE(pair.link(1).receive(got));
  }
  for (const std::uint64_t wrong : {std::uint64_t{65}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    Pair pair(64);
    pair.link(0).send(make_message(1, 60));
    tail_word(pair).store(wrong);
    pair.link(0).send(make_message(2, 60));
    EXPECT_EQ(pair.link(0).status().code(), Code::internal);
    EXPECT_EQ(pair.link(0).status().failed_rank(), 1);
    EXPECT_TRUE(pair.link(0).flush()) << "nothing is left to wait for";
  }
}

TEST(RingLink, AnImpossibleLengthIsAnErrorAndTakesNoMemory) {
  Pair pair(64);
  const std::uint32_t length = 0xffffffff;
  std::memcpy(pair.arena(0).region(0) + pair.arena(0).layout().ring_offset(1) + kLineBytes, &length, sizeof length);
  head_word(pair).store(sizeof length);
  Message got;
  EXPECT_FALSE(pair.link(1).receive(got));
  EXPECT_EQ(pair.link(1).status().code(), Code::internal);
}

/// The conformance suite of Link: messages of random sizes between all pairs of a world, in a random interleaving of
/// sends, flushes and receives, arrive whole and in order.
class LinkConformance : public testing::TestWithParam<int> {};

struct Traffic {
  std::deque<Message> under_way;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

TEST_P(LinkConformance, RandomInterleavingsByHand) {
  const int size = GetParam();
  constexpr std::uint64_t kMessages = 200;
  for (std::uint64_t seed = 1; seed <= (kUnderThreadSanitizer ? 1u : 5u); ++seed) {
    RegionLayout layout = RegionLayout::for_size(size);
    layout.ring_bytes = 256;
    const auto arenas = make_loopback_world(size, layout);
    std::vector<std::unique_ptr<Transport>> transports;
    for (const auto& arena : arenas) {
      transports.push_back(make_ring_transport(*arena));
    }
    std::mt19937_64 random(seed);
    std::vector<Traffic> traffic(static_cast<std::size_t>(size * size));
    std::uint64_t left = kMessages * static_cast<std::uint64_t>(size * (size - 1));
    Message got;
    for (std::uint64_t turn = 0; left > 0; ++turn) {
      ASSERT_LT(turn, 10'000'000u) << "no progress";
      const int from = static_cast<int>(random() % static_cast<std::uint64_t>(size));
      const int to = static_cast<int>(random() % static_cast<std::uint64_t>(size));
      if (from == to) {
        continue;
      }
      Traffic& pipe = traffic[static_cast<std::size_t>(from * size + to)];
      Link& sender = transports[static_cast<std::size_t>(from)]->link(to);
      Link& receiver = transports[static_cast<std::size_t>(to)]->link(from);
      switch (random() % 3) {
        case 0:
          if (pipe.sent < kMessages) {
            pipe.under_way.push_back(make_message(random(), random() % (random() % 8 == 0 ? 2000 : 40)));
            sender.send(pipe.under_way.back());
            ++pipe.sent;
          }
          break;
        case 1: sender.flush(); break;
        default:
          if (receiver.receive(got)) {
            ASSERT_FALSE(pipe.under_way.empty());
            ASSERT_EQ(got, pipe.under_way.front());
            pipe.under_way.pop_front();
            --left;
          }
      }
    }
  }
}

/// A thread per rank. Each sends and receives until it has all, and sleeps on its bell whenever nothing moved: a lost
/// wake-up, for arriving bytes or for room, shows as a timeout.
TEST_P(LinkConformance, ThreadsThatSleepOnTheirBells) {
  const int size = GetParam();
  constexpr std::uint64_t kMessages = 300;
  RegionLayout layout = RegionLayout::for_size(size);
  layout.ring_bytes = 512;
  const auto arenas = make_loopback_world(size, layout);
  std::atomic<int> wrong{0};
  std::atomic<int> timeouts{0};
  const auto bytes_of = [](int from, int to, std::uint64_t number) {
    return static_cast<std::size_t>((number * 37 + static_cast<std::uint64_t>(from * 5 + to)) % 1500);
  };
  const auto number_of = [](int from, int to, std::uint64_t number) {
    return number * 10000 + static_cast<std::uint64_t>(from * 100 + to);
  };
  const auto run = [&](int rank) {
    HostArena& arena = *arenas[static_cast<std::size_t>(rank)];
    const auto transport = make_ring_transport(arena);
    std::vector<Traffic> traffic(static_cast<std::size_t>(size));
    Sleeper sleeper(arena.control(rank).bell);
    Message got;
    const auto step = [&] {
      bool moved = false;
      for (int peer = 0; peer < size; ++peer) {
        if (peer == rank) {
          continue;
        }
        Traffic& pipe = traffic[static_cast<std::size_t>(peer)];
        Link& link = transport->link(peer);
        if (link.flush() && pipe.sent < kMessages) {
          link.send(make_message(number_of(rank, peer, pipe.sent), bytes_of(rank, peer, pipe.sent)));
          ++pipe.sent;
          moved = true;
        }
        if (link.receive(got)) {
          const Message expected =
              make_message(number_of(peer, rank, pipe.received), bytes_of(peer, rank, pipe.received));
          wrong.fetch_add(got == expected ? 0 : 1);
          ++pipe.received;
          moved = true;
        }
      }
      return moved;
    };
    const auto finished = [&] {
      for (int peer = 0; peer < size; ++peer) {
        const Traffic& pipe = traffic[static_cast<std::size_t>(peer)];
        if (peer != rank && (pipe.sent < kMessages || pipe.received < kMessages || !transport->link(peer).flush())) {
          return false;
        }
      }
      return true;
    };
    while (!finished()) {
      if (step()) {
        continue;
      }
      sleeper.arm(kWaiterSleeps);
      if (!step() && !finished() && sleeper.sleep(20 * kSecond) == Wake::timeout) {
        timeouts.fetch_add(1);
        return;
      }
      sleeper.disarm();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back(run, rank);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(timeouts.load(), 0);
}

INSTANTIATE_TEST_SUITE_P(Worlds, LinkConformance, testing::Values(2, 3, 5, 8));

}  // namespace
}  // namespace ronde::transport
