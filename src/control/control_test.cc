#include "control/control.h"

#include <gtest/gtest.h>

#include "transport/loopback/testing/host.h"

namespace ronde::control {
namespace {

struct Member {
  transport::LoopbackRank rank;
  std::unique_ptr<Control> control;
};

std::vector<Member> make_members(int size) {
  std::vector<Member> members;
  for (transport::LoopbackRank& rank : transport::loopback_host(size)) {
    Member member;
    member.rank = std::move(rank);
    member.control = std::make_unique<Control>(member.rank.transport.get(), static_cast<int>(members.size()), size);
    members.push_back(std::move(member));
  }
  return members;
}

/// The members of the LEFT entries that have arrived, with their senders.
std::vector<std::pair<int, int>> received(Control& control) {
  std::vector<std::pair<int, int>> all;
  int from = -1;
  Envelope envelope;
  while (control.receive(from, envelope).value()) {
    all.emplace_back(from, std::get<LeftEntry>(envelope.message).member);
  }
  return all;
}

TEST(Control, ToItselfWithoutATransport) {
  Control control(nullptr, 0, 1);
  control.send(0, {0, LeftEntry{1}});
  control.send(0, {0, LeftEntry{2}});
  EXPECT_EQ(received(control), (std::vector<std::pair<int, int>>{{0, 1}, {0, 2}}));
  EXPECT_EQ(control.sent(), 0u);
  EXPECT_TRUE(control.flush());
}

TEST(Control, InOrderFromEachAndNobodyStarves) {
  auto members = make_members(3);
  for (int i = 0; i < 4; ++i) {
    members[0].control->send(2, {0, LeftEntry{i}});
    members[1].control->send(2, {0, LeftEntry{i}});
  }
  EXPECT_EQ(members[0].control->sent(), 4u);
  const auto all = received(*members[2].control);
  ASSERT_EQ(all.size(), 8u);
  std::vector<int> next(2);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].second, next[static_cast<std::size_t>(all[i].first)]++);
  }
  EXPECT_NE(all[0].first, all[1].first);
}

TEST(Control, WhatHasNoRoomGoesOutLater) {
  auto members = make_members(2);
  constexpr int kMany = 20000;  // more than a ring holds
  for (int i = 0; i < kMany; ++i) {
    members[0].control->send(1, {0, LeftEntry{i}});
  }
  EXPECT_FALSE(members[0].control->flush());
  int next = 0;
  while (next < kMany) {
    for (const auto& [from, number] : received(*members[1].control)) {
      ASSERT_EQ(number, next++);
    }
    members[0].control->flush();
  }
  EXPECT_TRUE(members[0].control->flush());
}

}  // namespace
}  // namespace ronde::control
