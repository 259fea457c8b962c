#include "engine/core/inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TicketPtr ticket(const std::string& name, OpKind kind = OpKind::allreduce, const std::string& planning_name = "") {
  Request request;
  request.name = name;
  request.kind = kind;
  request.planning_name = planning_name;
  return std::make_shared<Ticket>(std::move(request));
}

TEST(Inbox, WhatWasAddedIsTakenAtOnceInItsOrder) {
  Inbox inbox;
  EXPECT_FALSE(inbox.any());
  const TicketPtr a = ticket("a");
  const TicketPtr b = ticket("b");
  EXPECT_TRUE(inbox.add(a));
  EXPECT_TRUE(inbox.add(b));
  inbox.add(control::RefusedMessage{"c", "no such type"});
  inbox.propose({.one_shot = 1});
  inbox.propose({.one_shot = 2});
  EXPECT_TRUE(inbox.any());

  const Inbox::Taken taken = inbox.take();
  EXPECT_THAT(taken.tickets, ElementsAre(a, b));
  ASSERT_EQ(taken.refused.size(), 1u);
  EXPECT_EQ(taken.refused[0].name, "c");
  ASSERT_TRUE(taken.proposed);
  EXPECT_EQ(taken.proposed->one_shot, 2u) << "the last";

  EXPECT_FALSE(inbox.any());
  EXPECT_THAT(inbox.take().tickets, IsEmpty());
}

TEST(Inbox, ClosedToCollectivesItTakesSendsAndRecvs) {
  Inbox inbox;
  EXPECT_TRUE(inbox.accepting(ticket("a")->request()));
  inbox.close_to_collectives(Status::error(Code::peer_left, "rank 1 has left"));
  const Status refused = inbox.add(ticket("a"));
  EXPECT_EQ(refused.code(), Code::peer_left);
  EXPECT_THAT(refused.message(), HasSubstr("'a'"));
  EXPECT_EQ(inbox.accepting(ticket("a")->request()).code(), Code::peer_left);
  EXPECT_TRUE(inbox.accepting(ticket("s", OpKind::send)->request()));
  const TicketPtr sent = ticket("s", OpKind::send);
  EXPECT_TRUE(inbox.add(sent));
  EXPECT_THAT(inbox.take().tickets, ElementsAre(sent));
}

TEST(Inbox, TheFirstReasonToCloseIsTold) {
  Inbox inbox;
  inbox.close_to_collectives(Status::error(Code::peer_left, "rank 1 has left"));
  inbox.close(Status::error(Code::cancelled, "shut down"));
  EXPECT_EQ(inbox.add(ticket("a")).code(), Code::peer_left);
  EXPECT_EQ(inbox.add(ticket("s", OpKind::send)).code(), Code::cancelled);
  inbox.add(control::RefusedMessage{"c", "no such type"});
  inbox.propose({.one_shot = 1});
  EXPECT_FALSE(inbox.any()) << "nobody waits for these any more";
}

TEST(Inbox, UnnamedCallsAreInItUntilTheyAreKnown) {
  Inbox inbox;
  ASSERT_TRUE(inbox.add(ticket("a")));
  EXPECT_FALSE(inbox.has_calls());
  const TicketPtr call = ticket("call 1", OpKind::allreduce, "plan");
  ASSERT_TRUE(inbox.add(call));
  EXPECT_TRUE(inbox.has_calls());
  const Inbox::Taken taken = inbox.take();
  EXPECT_TRUE(inbox.has_calls()) << "they may not be overtaken yet";
  for (const TicketPtr& each : taken.tickets) {
    inbox.is_known(*each);
  }
  EXPECT_FALSE(inbox.has_calls());
}

TEST(Inbox, ThreadsThatAddLoseNothing) {
  Inbox inbox;
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::vector<std::thread> threads;
  std::atomic<int> running{kThreads};
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&inbox, &running] {
      for (int i = 0; i < kEach; ++i) {
        ASSERT_TRUE(inbox.add(ticket("a")));
      }
      running.fetch_sub(1);
    });
  }
  std::size_t count = 0;
  while (running.load() > 0 || inbox.any()) {
    count += inbox.take().tickets.size();
  }
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(count, std::size_t{kThreads} * kEach);
}

}  // namespace
}  // namespace ronde::engine
