#include "agreement/held_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

using testing::ElementsAre;

control::RequestMessage held_request(const std::string& name, Nanoseconds timeout = kNever,
                                     const std::string& planning_name = {}) {
  control::RequestMessage message;
  message.name = name;
  message.descriptor.tensors.push_back({DType::float32, {2}});
  message.timeout = timeout;
  message.planning_name = planning_name;
  return message;
}

TEST(HeldRequests, CollectsTheRequestsOfAName) {
  HeldRequests held(3);
  control::RequestMessage late = held_request("a");
  late.position = 7;
  late.waited = 40;
  ASSERT_NE(held.add(1, held_request("a"), 100), nullptr);
  const HeldRequest* const both = held.add(2, std::move(late), 120);
  ASSERT_NE(both, nullptr);
  EXPECT_EQ(both->count, 2);
  EXPECT_FALSE(both->is_from(0));
  EXPECT_TRUE(both->is_from(2));
  EXPECT_EQ(both->asked, 7u);
  EXPECT_EQ(both->since, 80) << "it was replayed at first";
  EXPECT_EQ(held.add(1, held_request("a"), 130), nullptr) << "twice";
  EXPECT_EQ(held.find("a")->count, 2);
}

TEST(HeldRequests, WhatIsTakenHasNoDeadlineAnyMore) {
  HeldRequests held(2);
  held.add(0, held_request("slow", 500), 0);
  held.add(0, held_request("quick", 300), 0);
  held.add(1, held_request("slow", 100), 100);
  EXPECT_EQ(held.next_deadline(), 200) << "the shortest of the members' limits";
  EXPECT_EQ(held.overdue(199), std::nullopt);
  EXPECT_EQ(held.overdue(200), "slow");
  EXPECT_EQ(held.take("slow")->deadline, 200);
  EXPECT_EQ(held.take("slow"), std::nullopt);
  EXPECT_EQ(held.next_deadline(), 300);
  held.clear();
  EXPECT_EQ(held.next_deadline(), kNever);
  EXPECT_EQ(held.overdue(kNever), std::nullopt);
}

TEST(HeldRequests, NamesComeInTheOrderInWhichTheyWereFirstRequested) {
  HeldRequests held(2);
  for (const char* name : {"c", "a", "b"}) {
    held.add(0, held_request(name), 0);
  }
  held.add(1, held_request("a"), 0);
  EXPECT_THAT(held.names_where([](const HeldRequest&) { return true; }), ElementsAre("c", "a", "b"));
  EXPECT_THAT(held.names_where([](const HeldRequest& each) { return each.is_from(1); }), ElementsAre("a"));
  EXPECT_TRUE(held.any_from(1));
  held.take("a");
  EXPECT_FALSE(held.any_from(1));
}

TEST(HeldRequests, CallsOfAPlanningNameAreForgottenForTheMembersThatHaveIt) {
  HeldRequests held(2);
  held.add(0, held_request("call 1", 500, "plan"), 0);
  held.add(1, held_request("call 1", 500, "other"), 0);
  held.add(0, held_request("call 2", 300, "plan"), 0);
  held.add(0, held_request("named", 900), 0);
  held.forget_calls({"plan"});
  EXPECT_EQ(held.find("call 2"), nullptr);
  ASSERT_NE(held.find("call 1"), nullptr) << "the members' hints differ";
  EXPECT_FALSE(held.find("call 1")->is_from(0));
  EXPECT_THAT(held.find("call 1")->all_planning_names(), ElementsAre("other"));
  EXPECT_NE(held.find("named"), nullptr);
  EXPECT_EQ(held.next_deadline(), 500) << "of what is left";
}

TEST(HeldRequests, SaysWhoIsWaitedForOldestFirst) {
  HeldRequests held(3);
  held.add(2, held_request("young"), 50);
  held.add(1, held_request("old"), 10);
  const std::vector<observe::Waiting> all = held.waiting({10, 11, 12}, {true, false, false});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "old");
  EXPECT_THAT(all[0].ready, ElementsAre(11));
  EXPECT_THAT(all[0].missing, ElementsAre(12)) << "rank 10 has joined";
  EXPECT_EQ(all[1].name, "young");
}

}  // namespace
}  // namespace ronde::agreement
