// Sends and recvs in a world moved by hand: how they meet, how bytes come over, how they end.
#include "engine/p2p/point_to_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/testing/messages.h"
#include "support/effort.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using test::LocalWorld;
using test::with_timeout;
using testing::AllOf;
using testing::HasSubstr;

class Orders : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(SendFirst, Orders, testing::Bool());

// Around what goes in the offer, one slot and all slots; and much.
TEST_P(Orders, EverySizeComesOver) {
  LocalWorld world(3);
  for (const std::size_t count : {0u, 1u, 511u, 512u, 513u, 32768u, 32769u, 131072u, 131073u, 3000001u}) {
    std::vector<float> out = numbers(count, 5);
    std::vector<float> in(count);
    TicketPtr sending;
    TicketPtr receiving;
    if (GetParam()) {
      sending = world.submit(2, send("s", out, 1));
      world.settle();
      EXPECT_FALSE(sending->is_done()) << "a send is over when the receiver has the data";
    }
    receiving = world.submit(1, recv("r", in, 2));
    if (!GetParam()) {
      world.settle();
      EXPECT_FALSE(receiving->is_done());
      sending = world.submit(2, send("s", out, 1));
    }
    world.settle();
    expect_ok(sending);
    expect_ok(receiving);
    EXPECT_EQ(in, out) << count;
    EXPECT_EQ(receiving->results().source(), 2);
    world.wait(2, *sending);
    world.wait(1, *receiving);
  }
}

TEST(PointToPoint, TagsKeepApartAndOneTagKeepsTheOrder) {
  LocalWorld world(2);
  constexpr int kMessages = 200;
  std::vector<std::vector<float>> out(kMessages);
  std::vector<std::vector<float>> in(kMessages);
  std::vector<TicketPtr> tickets;
  for (int i = 0; i < kMessages; ++i) {  // tags 0 to 9; long and short in turn, which take different ways
    out[static_cast<std::size_t>(i)] = numbers(i % 3 == 0 ? 40000 : 3, static_cast<float>(i));
    tickets.push_back(world.submit(0, send("s" + std::to_string(i), out[static_cast<std::size_t>(i)], 1, i % 10)));
  }
  for (int tag = 9; tag >= 0; --tag) {
    for (int i = tag; i < kMessages; i += 10) {
      auto& values = in[static_cast<std::size_t>(i)];
      values.resize(out[static_cast<std::size_t>(i)].size());
      tickets.push_back(world.submit(1, recv("r" + std::to_string(i), values, 0, tag)));
    }
    world.settle();
  }
  for (const TicketPtr& ticket : tickets) {
    expect_ok(ticket);
  }
  EXPECT_EQ(in, out);
}

TEST(PointToPoint, FromAnyRankTellsWhich) {
  LocalWorld world(5);
  std::vector<std::vector<float>> out(5);
  std::vector<std::vector<float>> in(4, std::vector<float>(2));
  std::vector<TicketPtr> receiving;
  for (std::size_t i = 0; i < 2; ++i) {
    receiving.push_back(world.submit(0, recv("r" + std::to_string(i), in[i], kAnySource, 3)));
  }
  for (const int rank : {4, 2, 3, 1}) {
    out[static_cast<std::size_t>(rank)] = numbers(2, static_cast<float>(10 * rank));
    world.submit(rank, send("s", out[static_cast<std::size_t>(rank)], 0, 3));
    world.settle();
  }
  for (std::size_t i = 2; i < 4; ++i) {
    receiving.push_back(world.submit(0, recv("r" + std::to_string(i), in[i], kAnySource, 3)));
  }
  world.settle();
  const std::vector<int> order = {4, 2, 3, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    expect_ok(receiving[i]);
    EXPECT_EQ(receiving[i]->results().source(), order[i]);
    EXPECT_EQ(in[i], out[static_cast<std::size_t>(order[i])]);
  }
}

// Each way is open while the other is blocked.
TEST(PointToPoint, CollectivesAndMessagesDoNotWaitForEachOther) {
  LocalWorld world(3);
  test::Vectors reduced = test::inputs(3, 200000);
  std::vector<TicketPtr> collective;
  for (const int rank : {0, 1}) {
    collective.push_back(world.submit(rank, test::allreduce("x", reduced[static_cast<std::size_t>(rank)])));
  }
  std::vector<float> out = numbers(300000, 1);
  std::vector<float> in(out.size());
  std::vector<float> never(4);
  const TicketPtr sending = world.submit(0, send("s", out, 1));
  const TicketPtr receiving = world.submit(1, recv("r", in, 0));
  const TicketPtr blocked = world.submit(1, recv("never", never, 2, 7));
  world.settle();
  expect_ok(sending);
  expect_ok(receiving);
  EXPECT_EQ(in, out);
  EXPECT_FALSE(collective[0]->is_done());
  collective.push_back(world.submit(2, test::allreduce("x", reduced[2])));
  world.settle();
  for (const TicketPtr& ticket : collective) {
    expect_ok(ticket);
  }
  EXPECT_EQ(reduced[0], std::vector<float>(200000, 6));
  EXPECT_FALSE(blocked->is_done());
}

TEST(PointToPoint, WhatDoesNotFitFailsOnBothSidesAndTheJobGoesOn) {
  LocalWorld world(2);
  for (const bool is_long : {false, true}) {
    std::vector<float> out = numbers(is_long ? 5000 : 3, 1);
    std::vector<float> in(4, -1);
    const TicketPtr sending = world.submit(0, send("s", out, 1, 5));
    const TicketPtr receiving = world.submit(1, recv("r", in, 0, 5));
    world.settle();
    ASSERT_TRUE(sending->is_done() && receiving->is_done());
    EXPECT_EQ(sending->status().code(), Code::mismatch);
    EXPECT_EQ(receiving->status().code(), Code::mismatch);
    EXPECT_EQ(sending->status().message(), receiving->status().message());
    EXPECT_THAT(sending->status().message(), AllOf(HasSubstr("send 's' of float32"), HasSubstr("from rank 0"),
                                                   HasSubstr("recv 'r' of float32 [4] on rank 1 (tag 5)")));
    EXPECT_EQ(in, std::vector<float>(4, -1));
    world.wait(0, *sending);
    world.wait(1, *receiving);
    std::vector<float> good = numbers(4, 9);
    const TicketPtr again = world.submit(0, send("s", good, 1, 5));
    const TicketPtr there = world.submit(1, recv("r", in, 0, 5));
    world.settle();
    expect_ok(again);
    EXPECT_EQ(in, good);
    world.wait(0, *again);
    world.wait(1, *there);
  }
}

TEST(PointToPoint, ARankHasNoMessagesForItself) {
  LocalWorld world(2);
  std::vector<float> values(3);
  const Status status = world.try_submit(1, send("s", values, 1));
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_THAT(status.message(), HasSubstr("no messages for itself, and this is rank 1"));
  EXPECT_EQ(world.try_submit(1, recv("r", values, 1)).code(), Code::invalid_argument);
  EXPECT_EQ(world.try_submit(1, send("s", values, 2)).code(), Code::invalid_argument) << "there is no rank 2";
  EXPECT_EQ(world.try_submit(1, send("s", values, kAnySource)).code(), Code::invalid_argument);
  LocalWorld alone(1);
  EXPECT_EQ(alone.try_submit(0, recv("r", values, kAnySource)).code(), Code::invalid_argument);
}

TEST(PointToPoint, TimeIsUp) {
  LocalWorld world(3);
  std::vector<float> out = numbers(5000, 1);
  std::vector<float> in(5000);
  const TicketPtr sending = world.submit(0, with_timeout(send("s", out, 1, 2), 3 * kSecond));
  const TicketPtr receiving = world.submit(2, with_timeout(recv("r", in, 1, 4), 5 * kSecond));
  const TicketPtr any = world.submit(2, with_timeout(recv("any", in, kAnySource, 6), 5 * kSecond));
  world.settle();
  EXPECT_LE(world.engine(0).next_timer(), world.clock().now() + 3 * kSecond) << "somebody must wake up for it";
  world.clock().advance(4 * kSecond);
  world.settle();
  ASSERT_TRUE(sending->is_done());
  EXPECT_EQ(sending->status().code(), Code::timed_out);
  EXPECT_EQ(sending->status().failed_rank(), 1);
  EXPECT_THAT(sending->status().message(),
              AllOf(HasSubstr("send 's' of float32 [5000] to rank 1, tag 2"), HasSubstr("rank 1 has not received it")));
  EXPECT_FALSE(receiving->is_done());
  world.clock().advance(kSecond);
  world.settle();
  ASSERT_TRUE(receiving->is_done() && any->is_done());
  EXPECT_THAT(receiving->status().message(), HasSubstr("from rank 1, tag 4: rank 1 has not sent it"));
  EXPECT_THAT(any->status().message(), HasSubstr("from any rank, tag 6: no rank has sent it"));
  // What was given up is not delivered to who comes later.
  const TicketPtr late = world.submit(1, recv("late", in, 0, 2));
  world.settle();
  EXPECT_FALSE(late->is_done());
  world.wait(0, *sending);
  std::vector<float> newer = numbers(5000, 7);
  const TicketPtr again = world.submit(0, send("s", newer, 1, 2));
  world.settle();
  expect_ok(late);
  EXPECT_EQ(in, newer);
}

// A receiver that is stopped in the middle: its sender's time is up, and what goes to it afterwards is whole.
TEST(PointToPoint, ASendGivenUpInTheMiddleHarmsNoOther) {
  LocalWorld world(3);
  std::vector<float> out = numbers(1000000, 1);
  std::vector<float> in(out.size());
  const TicketPtr sending = world.submit(0, with_timeout(send("s", out, 1), 3 * kSecond));
  const TicketPtr receiving = world.submit(1, recv("r", in, 0));
  while (in.front() == 0) {
    world.step(0);
    world.step(1);
  }
  world.pause(1);
  world.settle();
  EXPECT_FALSE(sending->is_done());
  std::vector<float> beside(out.size());
  const TicketPtr other = world.submit(0, send("other", out, 2));
  const TicketPtr there = world.submit(2, recv("there", beside, 0));
  world.settle();
  expect_ok(other);
  EXPECT_EQ(beside, out) << "a stopped receiver keeps nobody else waiting";
  world.clock().advance(3 * kSecond);
  world.settle();
  ASSERT_TRUE(sending->is_done());
  EXPECT_EQ(sending->status().code(), Code::timed_out);
  std::vector<float> newer = numbers(out.size(), 77);
  std::vector<float> target(out.size());
  const TicketPtr second = world.submit(0, send("s2", newer, 1, 1));
  world.settle();
  world.resume(1);
  const TicketPtr taken = world.submit(1, recv("r2", target, 0, 1));
  world.settle();
  ASSERT_TRUE(receiving->is_done());
  EXPECT_EQ(receiving->status().code(), Code::timed_out);
  EXPECT_THAT(receiving->status().message(), HasSubstr("rank 0 gave up its send 's'"));
  expect_ok(second);
  EXPECT_EQ(target, newer);
  // Nothing was put away for good: its slots are used again.
  const auto next_place = [&] { return world.engine(0).memory().allocate(std::size_t{512} << 10).value().get(); };
  void* const before = next_place();
  for (int i = 0; i < 20; ++i) {
    const TicketPtr each = world.submit(0, with_timeout(send("s3", newer, 1, 2), kSecond));
    const TicketPtr there2 = world.submit(1, with_timeout(recv("r3", target, 0, 2), kSecond));
    target.front() = -1;
    while (target.front() == -1) {  // until the first piece is there
      world.step(0);
      world.step(1);
    }
    world.clock().advance(2 * kSecond);
    world.settle();
    world.wait(0, *each);
    world.wait(1, *there2);
  }
  EXPECT_EQ(next_place(), before);
}

TEST(PointToPoint, ADeathEndsThemAll) {
  LocalWorld world(3);
  std::vector<float> out = numbers(1000000, 1);
  std::vector<float> in(out.size());
  std::vector<float> small(3);
  const TicketPtr waiting = world.submit(2, recv("waiting", small, 1, 9));
  const TicketPtr sending = world.submit(0, send("s", out, 1));
  world.submit(1, recv("r", in, 0));
  while (in.front() == 0) {
    world.step(0);
    world.step(1);
  }
  world.kill(1);
  world.settle();
  for (const TicketPtr& ticket : {waiting, sending}) {
    ASSERT_TRUE(ticket->is_done());
    EXPECT_EQ(ticket->status().code(), Code::peer_lost);
    EXPECT_EQ(ticket->status().failed_rank(), 1);
    EXPECT_THAT(ticket->status().message(), HasSubstr("rank 1"));
  }
}

TEST(PointToPoint, WhoLeavesFinishesWhatHasMetAndFailsTheRest) {
  LocalWorld world(3);
  std::vector<float> out = numbers(1000000, 1);
  std::vector<float> in(out.size());
  std::vector<float> small(3);
  std::vector<float> offered(3);
  const TicketPtr sending = world.submit(1, send("s", out, 0));
  const TicketPtr receiving = world.submit(0, recv("r", in, 1));
  const TicketPtr unmet = world.submit(1, send("unmet", offered, 2, 8));
  const TicketPtr waiting = world.submit(2, recv("waiting", small, 1, 9));
  while (in.front() == 0) {
    world.step(0);
    world.step(1);
  }
  world.engine(1).begin_leave();
  world.settle();
  expect_ok(sending);
  expect_ok(receiving);
  EXPECT_EQ(in, out);
  ASSERT_TRUE(unmet->is_done() && waiting->is_done());
  EXPECT_EQ(unmet->status().code(), Code::cancelled);
  EXPECT_EQ(waiting->status().code(), Code::peer_left);
  EXPECT_THAT(waiting->status().message(), HasSubstr("rank 1 has left"));
  const TicketPtr later = world.submit(0, send("later", small, 1));
  world.settle();
  ASSERT_TRUE(later->is_done());
  EXPECT_EQ(later->status().code(), Code::peer_left);
}

// Where a rank can have no staging memory, the bytes go in the messages.
TEST(PointToPoint, WithoutRoomForSlots) {
  LocalWorld world(2);
  std::vector<std::shared_ptr<void>> all;
  for (std::size_t bytes = std::size_t{1} << 40; bytes >= 4096;) {
    Result<std::shared_ptr<void>> some = world.engine(0).memory().allocate(bytes);
    if (some) {
      all.push_back(*some);
    } else {
      bytes /= 2;
    }
  }
  std::vector<float> out = numbers(200001, 3);
  std::vector<float> in(out.size());
  const TicketPtr sending = world.submit(0, send("s", out, 1));
  const TicketPtr receiving = world.submit(1, recv("r", in, 0));
  world.settle();
  expect_ok(sending);
  expect_ok(receiving);
  EXPECT_EQ(in, out);
}

class PairWorlds : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, PairWorlds, testing::Values(2, 3, 5));

// Everybody to everybody, many at once, submitted and stepped in any order, between all-reduces.
TEST_P(PairWorlds, AnyOrderAndAnyInterleaving) {
  const auto size = static_cast<std::size_t>(GetParam());
  for (int seed = 0; seed < effort(10); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    LocalWorld world(GetParam());
    struct Pair {
      std::size_t from, to;
      int tag;
      std::vector<float> out, in;
    };
    std::vector<Pair> pairs;
    for (std::size_t from = 0; from < size; ++from) {
      for (std::size_t to = 0; to < size; ++to) {
        for (int tag = 0; from != to && tag < 6; ++tag) {
          const std::size_t count = random() % (tag == 0 ? 300000 : 1000);
          pairs.push_back({from, to, tag, numbers(count, static_cast<float>(random() % 1000)), {}});
          pairs.back().in.resize(count);
        }
      }
    }
    struct Start {
      int rank;
      Request request;
    };
    std::vector<Start> starts;
    for (Pair& pair : pairs) {
      const std::string name =
          std::to_string(pair.from) + " " + std::to_string(pair.to) + " " + std::to_string(pair.tag);
      starts.push_back({static_cast<int>(pair.from), send("s" + name, pair.out, static_cast<int>(pair.to), pair.tag)});
      starts.push_back({static_cast<int>(pair.to), recv("r" + name, pair.in, static_cast<int>(pair.from), pair.tag)});
    }
    test::Vectors reduced = test::inputs(world.size(), 100000);
    for (int rank = 0; rank < world.size(); ++rank) {
      starts.push_back({rank, test::allreduce("x", reduced[static_cast<std::size_t>(rank)])});
    }
    std::shuffle(starts.begin(), starts.end(), random);
    std::vector<TicketPtr> tickets;
    for (const Start& start : starts) {
      tickets.push_back(world.submit(start.rank, start.request));
      for (unsigned i = random() % 4; i > 0; --i) {
        world.step(static_cast<int>(random() % size));
      }
    }
    world.settle(random);
    for (const TicketPtr& ticket : tickets) {
      expect_ok(ticket);
    }
    for (const Pair& pair : pairs) {
      ASSERT_EQ(pair.in, pair.out) << pair.from << " to " << pair.to << ", tag " << pair.tag;
    }
  }
}

}  // namespace
}  // namespace ronde::engine
