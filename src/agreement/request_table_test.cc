#include "agreement/request_table.h"

#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

TEST(RequestTable, ANameHasOneIndexAndGivesItBackWhenItIsIdle) {
  RequestTable table;
  const std::uint32_t a = table.intern("a");
  EXPECT_EQ(table.intern("a"), a);
  EXPECT_EQ(table.find("a"), a);
  table[a].kept = 1;
  table.drop_if_idle(a);
  EXPECT_TRUE(table.contains("a")) << "a bucket refers to it";
  table[a].kept = 0;
  table.drop_if_idle(a);
  EXPECT_FALSE(table.contains("a"));
  EXPECT_EQ(table.names(), 0u);
  const std::uint32_t b = table.intern("b");
  EXPECT_EQ(b, a);
  EXPECT_EQ(table[b].name, "b");
  EXPECT_EQ(table.entries().size(), 1u);
}

TEST(RequestTable, WhatIsOutstandingOrOwedKeepsItsName) {
  RequestTable table;
  const std::uint32_t a = table.intern("a");
  table.move(table[a], Lane::executing);
  table.drop_if_idle(a);
  EXPECT_TRUE(table.contains("a"));
  table.move(table[a], Lane::none);
  table[a].owe(Status::error(Code::timed_out, "first"));
  table[a].owe(Status::error(Code::timed_out, "second"));
  table.drop_if_idle(a);
  EXPECT_TRUE(table.contains("a"));
  EXPECT_EQ(table[a].pay().message(), "first");
  EXPECT_TRUE(table[a].owes);
  table.forgive_all();
  EXPECT_FALSE(table.contains("a"));
}

TEST(RequestTable, CountsWhatIsOutstandingAndWhatWaitsForTheCoordinator) {
  RequestTable table;
  const std::uint32_t a = table.intern("a");
  const std::uint32_t b = table.intern("b");
  table.move(table[a], Lane::sent);
  EXPECT_TRUE(table.is_waiting());
  table.move(table[a], Lane::held);
  EXPECT_FALSE(table.is_waiting());
  table.place(table[b]);
  table.move(table[a], Lane::none);
  EXPECT_TRUE(table.has_outstanding());
  const std::vector<std::uint32_t> places{b};
  EXPECT_TRUE(table.end_placed(places));
  EXPECT_FALSE(table.has_outstanding());
  EXPECT_EQ(table[b].lane, Lane::none);
}

TEST(RequestTable, SaysWhenAPlaceThatEndsIsEmpty) {
  RequestTable table;
  const std::vector<std::uint32_t> places{table.intern("a"), table.intern("b")};
  table.place(table[places[0]]);
  EXPECT_FALSE(table.end_placed(places));
}

TEST(RequestTable, DeadlinesAreThoseOfWhatIsSentOrHeld) {
  RequestTable table;
  Nanoseconds deadline = 10;
  for (const Lane lane : {Lane::placed, Lane::held, Lane::sent, Lane::executing}) {
    const std::uint32_t index = table.intern(std::to_string(deadline));
    table[index].deadline = deadline;
    table.move(table[index], lane);
    deadline += 10;
  }
  EXPECT_EQ(table.next_deadline(), 20);
  EXPECT_EQ(table.overdue(34, 5), std::nullopt);
  EXPECT_EQ(table.overdue(35, 5), "30") << "only what is sent";
}

TEST(RequestTable, APlaceIsSpokenOfByTheCallThatIsInIt) {
  RequestTable table;
  RequestEntry& entry = table[table.intern("place")];
  EXPECT_EQ(entry.request_name(), "place");
  entry.call = "call 7";
  EXPECT_EQ(entry.request_name(), "call 7");
}

}  // namespace
}  // namespace ronde::agreement
