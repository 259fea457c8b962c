#include "transport/host_peers.h"

#include <gtest/gtest.h>

#include "transport/loopback/loopback.h"

namespace ronde::transport {
namespace {

class HostPeersTest : public testing::TestWithParam<int> {
 protected:
  HostPeersTest() : arenas_(make_loopback_world(GetParam(), RegionLayout::for_size(GetParam()))) {
    for (const std::unique_ptr<HostArena>& arena : arenas_) {
      peers_.push_back(std::make_unique<HostPeers>(*arena));
    }
  }
  int last() const { return GetParam() - 1; }

  std::vector<std::unique_ptr<HostArena>> arenas_;
  std::vector<std::unique_ptr<Peers>> peers_;
};

TEST_P(HostPeersTest, NothingIsSaidAtFirst) {
  for (const std::unique_ptr<Peers>& own : peers_) {
    EXPECT_EQ(own->size(), GetParam());
    EXPECT_FALSE(own->has_any_given_up());
    for (int member = 0; member < GetParam(); ++member) {
      EXPECT_EQ(own->departure(member), Departure::none);
      EXPECT_EQ(own->frozen_in(member), 0u);
      EXPECT_FALSE(own->has_given_up(member));
      EXPECT_FALSE(own->is_quiet_about(member, 0));
    }
  }
}

TEST_P(HostPeersTest, WhatAMemberSaysAllAreTold) {
  Peers& speaker = *peers_.back();
  ASSERT_EQ(speaker.self(), last());
  speaker.say_frozen(7, 1);
  speaker.say_quiet({0});
  speaker.say_given_up();
  speaker.say_departed(Departure::in_order);
  for (const std::unique_ptr<Peers>& own : peers_) {
    EXPECT_EQ(own->frozen_in(last()), 7u);
    EXPECT_TRUE(own->is_quiet_about(last(), 0));
    EXPECT_TRUE(own->has_given_up(last()));
    EXPECT_EQ(own->has_any_given_up(), own->self() != last()) << "its own word is no peer's";
    EXPECT_EQ(own->departure(last()), Departure::in_order);
    for (int member = 0; member < last(); ++member) {
      EXPECT_EQ(own->departure(member), Departure::none);
      EXPECT_EQ(own->frozen_in(member), 0u);
      EXPECT_FALSE(own->is_quiet_about(member, 0));
      EXPECT_FALSE(own->has_given_up(member));
    }
  }
  speaker.say_departed(Departure::final);
  EXPECT_EQ(peers_.front()->departure(last()), Departure::final);
}

TEST_P(HostPeersTest, QuietOnlyGrows) {
  Peers& speaker = *peers_.front();
  speaker.say_quiet({0});
  speaker.say_quiet({last()});
  EXPECT_TRUE(peers_.back()->is_quiet_about(0, 0));
  EXPECT_TRUE(peers_.back()->is_quiet_about(0, last()));
  EXPECT_EQ(peers_.back()->is_quiet_about(0, 1), last() == 1);
}

// A damaged word of a peer's is its last.
TEST_P(HostPeersTest, AnUnknownDepartureIsFinal) {
  arenas_.back()->control(last()).state.left.store(99);
  EXPECT_EQ(peers_.front()->departure(last()), Departure::final);
}

// 65 and more: the set of the lost has several words.
INSTANTIATE_TEST_SUITE_P(Worlds, HostPeersTest, testing::Values(2, 3, 5, 8, 70));

}  // namespace
}  // namespace ronde::transport
