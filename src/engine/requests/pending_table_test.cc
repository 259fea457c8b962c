#include "engine/requests/pending_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

TicketPtr barrier_of(const std::string& name) {
  Request request;
  request.kind = OpKind::barrier;
  request.name = name;
  return std::make_shared<Ticket>(request);
}

TEST(PendingTable, ANameIsTakenUntilItIsFreed) {
  PendingTable table;
  const TicketPtr first = barrier_of("x");
  ASSERT_TRUE(table.insert(first));
  EXPECT_EQ(table.find("x"), first);
  const Status refused = table.insert(barrier_of("x"));
  EXPECT_EQ(refused.code(), Code::duplicate_name);
  EXPECT_THAT(refused.message(), testing::HasSubstr("'x'"));
  first->finish({});
  EXPECT_FALSE(table.insert(barrier_of("x"))) << "being done does not free the name";
  table.free_name(*first);
  EXPECT_EQ(table.find("x"), nullptr);
  EXPECT_TRUE(table.insert(barrier_of("x")));
}

TEST(PendingTable, FreeingTwiceDoesNotTouchTheNextHolder) {
  PendingTable table;
  const TicketPtr first = barrier_of("x");
  ASSERT_TRUE(table.insert(first));
  first->finish({});
  table.free_name(*first);
  const TicketPtr second = barrier_of("x");
  ASSERT_TRUE(table.insert(second));
  table.free_name(*first);
  EXPECT_EQ(table.find("x"), second);
}

TEST(PendingTable, ASlowerWaiterDoesNotFreeWhatIsUnderWayAgain) {
  PendingTable table;
  const TicketPtr slot = barrier_of("x");
  ASSERT_TRUE(table.insert(slot));
  slot->finish({});
  table.free_name(*slot);
  ASSERT_TRUE(table.insert(slot));
  EXPECT_FALSE(slot->is_done());
  table.free_name(*slot);
  EXPECT_EQ(table.find("x"), slot);
  slot->finish({});
  table.free_name(*slot);
  EXPECT_EQ(table.find("x"), nullptr);
}

TEST(PendingTable, WhatIsWithdrawnIsDoneAndFree) {
  PendingTable table;
  const TicketPtr first = barrier_of("x");
  ASSERT_TRUE(table.insert(first));
  table.withdraw(*first, Status::error(Code::cancelled, "closed"));
  EXPECT_EQ(table.find("x"), nullptr);
  ASSERT_TRUE(first->is_done());
  EXPECT_EQ(first->status().code(), Code::cancelled);
}

}  // namespace
}  // namespace ronde::engine
