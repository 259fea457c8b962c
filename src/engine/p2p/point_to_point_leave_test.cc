// Sends and recvs of a world in which one rank has left: the others are still there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "engine/p2p/point_to_point.h"
#include "engine/testing/messages.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

using test::LocalWorld;
using test::with_timeout;
using testing::HasSubstr;

/// The three ranks of a world, of which one leaves.
struct Trio {
  explicit Trio(int who) : leaver(who), one(who == 0 ? 1 : 0), other(who == 2 ? 1 : 2) {}

  /// Both ranks that are left send to each other.
  void expect_to_talk(std::size_t elements) {
    for (const auto& [from, to] : {std::pair{one, other}, std::pair{other, one}}) {
      const std::vector<float> out = numbers(elements, 5);
      std::vector<float> sent = out;
      std::vector<float> in(out.size());
      const TicketPtr receiving = world.submit(to, recv("r", in, to == one ? from : kAnySource));
      const TicketPtr sending = world.submit(from, send("s", sent, to));
      world.settle();
      expect_ok(sending);
      expect_ok(receiving);
      EXPECT_EQ(in, out);
      world.wait(from, *sending);
      world.wait(to, *receiving);
    }
  }

  void expect_to_have_left(const TicketPtr& ticket, int rank) {
    ASSERT_TRUE(ticket->is_done()) << ticket->name();
    EXPECT_EQ(ticket->status().code(), Code::peer_left) << ticket->status().message();
    EXPECT_EQ(ticket->status().failed_rank(), rank);
    EXPECT_THAT(ticket->status().message(), HasSubstr("rank " + std::to_string(rank) + " has left"));
  }

  /// What a rank may do with one that has left: nothing, whether it asks before or after.
  void expect_nothing_with(int gone, int rank) {
    std::vector<float> values(3, 1);
    for (const Request& request : {send("to", values, gone, 4), recv("from", values, gone, 4)}) {
      const TicketPtr ticket = world.submit(rank, request);
      world.settle();
      expect_to_have_left(ticket, gone);
      world.wait(rank, *ticket);
    }
  }

  LocalWorld world{3};
  int leaver, one, other;
};

enum class Going { leaves, has_gone, process_has_ended };

class Leavers : public testing::TestWithParam<std::tuple<int, Going>> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Leavers,
                         testing::Combine(testing::Values(0, 1, 2),
                                          testing::Values(Going::leaves, Going::has_gone, Going::process_has_ended)));

TEST_P(Leavers, TheOthersGoOn) {
  const auto [leaver, going] = GetParam();
  Trio trio(leaver);
  LocalWorld& world = trio.world;
  std::vector<float> small(3);
  std::vector<float> unmet_values = numbers(70000, 2);
  std::vector<float> met_values(unmet_values.size());
  const TicketPtr from_leaver = world.submit(trio.one, recv("from leaver", small, leaver, 1));
  const TicketPtr to_leaver = world.submit(trio.other, send("to leaver", small, leaver, 1));
  const TicketPtr unmet = world.submit(trio.one, send("unmet", unmet_values, trio.other, 2));
  const TicketPtr any = world.submit(trio.one, recv("any", small, kAnySource, 3));
  world.settle();
  world.engine(leaver).begin_leave();
  world.settle();
  if (going != Going::leaves) {
    world.engine(leaver).finish_leave();
    if (going == Going::process_has_ended) {
      world.kill(leaver);
    }
    world.settle();
  }
  trio.expect_to_have_left(from_leaver, leaver);
  trio.expect_to_have_left(to_leaver, leaver);
  EXPECT_FALSE(unmet->is_done() || any->is_done());
  const TicketPtr met = world.submit(trio.other, recv("met", met_values, trio.one, 2));
  world.settle();
  expect_ok(unmet);
  expect_ok(met);
  EXPECT_EQ(met_values, unmet_values);
  for (const std::size_t elements : {0u, 3u, 513u, 300000u}) {
    trio.expect_to_talk(elements);
  }
  for (const int rank : {trio.one, trio.other}) {
    trio.expect_nothing_with(leaver, rank);
    EXPECT_EQ(world.try_submit(rank, test::barrier("b")).code(), Code::peer_left) << "needs all";
  }
  // The last but one goes too: nobody is left who could send.
  world.engine(trio.other).begin_leave();
  world.settle();
  if (world.engine(trio.other).leaving() == Leaving::over) {  // nobody tells that all have: rank 0 is gone
    world.engine(trio.other).finish_leave();
    world.settle();
  }
  ASSERT_TRUE(any->is_done());
  EXPECT_EQ(any->status().code(), Code::peer_left);
  trio.expect_nothing_with(trio.other, trio.one);
  const TicketPtr later = world.submit(trio.one, recv("any later", small, kAnySource, 3));
  world.settle();
  ASSERT_TRUE(later->is_done());
  EXPECT_EQ(later->status().code(), Code::peer_left);
  world.engine(trio.one).begin_leave();
  world.settle();
  EXPECT_EQ(world.engine(trio.one).leaving(), Leaving::over);
  EXPECT_EQ(world.try_submit(trio.one, send("s", small, trio.other)).code(), Code::not_initialized);
}

// Nor does it end what is in the middle; and one of the two may still die, or stop.
TEST_P(Leavers, WhatIsUnderWayGoesOnAndStillHasItsEnds) {
  const auto [leaver, going] = GetParam();
  for (const std::string end : {"well", "death", "time"}) {
    Trio trio(leaver);
    LocalWorld& world = trio.world;
    std::vector<float> out = numbers(1000000, 1);
    std::vector<float> in(out.size());
    const TicketPtr sending = world.submit(trio.one, with_timeout(send("s", out, trio.other), 5 * kSecond));
    const TicketPtr receiving = world.submit(trio.other, recv("r", in, trio.one));
    while (in.front() == 0) {
      world.step(trio.one);
      world.step(trio.other);
    }
    if (end != "well") {
      world.pause(trio.other);
    }
    world.engine(leaver).begin_leave();
    world.settle();
    if (going != Going::leaves) {
      world.engine(leaver).finish_leave();
      if (going == Going::process_has_ended) {
        world.kill(leaver);
      }
      world.settle();
    }
    if (end == "well") {
      expect_ok(sending);
      expect_ok(receiving);
      EXPECT_EQ(in, out);
      continue;
    }
    EXPECT_FALSE(sending->is_done());
    if (end == "death") {
      world.kill(trio.other);
    } else {
      world.clock().advance(5 * kSecond);
    }
    world.settle();
    world.clock().advance(kSecond);  // the leaver may be one that is asked whether it is quiet
    world.settle();
    ASSERT_TRUE(sending->is_done()) << end;
    EXPECT_EQ(sending->status().code(), end == "death" ? Code::peer_lost : Code::timed_out);
    EXPECT_EQ(sending->status().failed_rank(), trio.other);
  }
}

// All had submitted it, so it ends well; what one has not, fails. Between the two messages pass.
TEST_P(Leavers, ACollectiveThatAllHaveSubmittedEndsWell) {
  const auto [leaver, going] = GetParam();
  for (const bool is_replayed : {false, true}) {
    Trio trio(leaver);
    LocalWorld& world = trio.world;
    test::Vectors values = test::inputs(3, 100);
    const auto submit = [&](int rank, const std::string& name) {
      return world.submit(rank, test::allreduce(name, values[static_cast<std::size_t>(rank)]));
    };
    for (int step = 0; is_replayed && step < 10; ++step) {
      const TicketPtr tickets[] = {submit(0, "x"), submit(1, "x"), submit(2, "x")};
      world.settle();
      for (const int rank : {0, 1, 2}) {
        expect_ok(tickets[rank]);
        world.wait(rank, *tickets[rank]);
      }
    }
    values = test::inputs(3, 100);
    const TicketPtr first = submit(leaver, "x");
    world.engine(leaver).begin_leave();
    world.settle();
    const TicketPtr lonely = submit(trio.one, "lonely");
    const TicketPtr second = submit(trio.one, "x");
    trio.expect_to_talk(700);
    EXPECT_FALSE(second->is_done());
    const TicketPtr third = submit(trio.other, "x");
    world.settle();
    for (const TicketPtr& ticket : {first, second, third}) {
      expect_ok(ticket);
    }
    EXPECT_EQ(values, test::Vectors(3, std::vector<float>(100, 6)));
    trio.expect_to_have_left(lonely, leaver);
    trio.expect_to_talk(70000);
  }
}

}  // namespace
}  // namespace ronde::engine
