// What every kind of Peers must do.
#include "transport/peers.h"

#include <gtest/gtest.h>

#include <cstring>

#include "transport/arena/host_peers.h"
#include "transport/loopback/links.h"
#include "transport/loopback/loopback.h"
#include "transport/messages/message_peers.h"

namespace ronde::transport {
namespace {

enum class Medium { shared_memory, messages };

class PeersTest : public testing::TestWithParam<std::tuple<Medium, int>> {
 protected:
  PeersTest() : net_(size()) {
    if (std::get<0>(GetParam()) == Medium::shared_memory) {
      arenas_ = make_loopback_world(size(), RegionLayout::for_size(size()));
      for (const std::unique_ptr<HostArena>& arena : arenas_) {
        peers_.push_back(std::make_unique<HostPeers>(*arena));
      }
      return;
    }
    for (int rank = 0; rank < size(); ++rank) {
      mailboxes_.push_back(std::make_unique<Mailbox>(&net_.transport(rank), rank, size()));
      peers_.push_back(std::make_unique<MessagePeers>(*mailboxes_.back(), [] {}));
    }
  }
  static int size() { return std::get<1>(GetParam()); }
  static int last() { return size() - 1; }
  ~PeersTest() override {
    for (const std::unique_ptr<Mailbox>& mailbox : mailboxes_) {
      EXPECT_TRUE(mailbox->status().is_ok());
    }
  }
  /// What has been said comes to all.
  void deliver() {
    for (int round = 0; round < 2; ++round) {
      for (const std::unique_ptr<Peers>& each : peers_) {
        each->receive();
      }
    }
  }

  LoopbackNet net_;
  std::vector<std::unique_ptr<HostArena>> arenas_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  std::vector<std::unique_ptr<Peers>> peers_;
};

TEST_P(PeersTest, NothingIsSaidAtFirst) {
  for (const std::unique_ptr<Peers>& own : peers_) {
    EXPECT_EQ(own->size(), size());
    EXPECT_FALSE(own->has_any_given_up());
    for (int member = 0; member < size(); ++member) {
      EXPECT_EQ(own->departure(member), Departure::none);
      EXPECT_EQ(own->frozen_in(member), 0u);
      EXPECT_FALSE(own->has_given_up(member));
      EXPECT_FALSE(own->is_quiet_about(member, 0));
    }
  }
}

TEST_P(PeersTest, WhatAMemberSaysAllAreTold) {
  Peers& speaker = *peers_.back();
  ASSERT_EQ(speaker.self(), last());
  speaker.say_frozen(7, 1);
  speaker.say_quiet({0});
  speaker.say_given_up();
  speaker.say_departed(Departure::in_order);
  deliver();
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
  deliver();
  EXPECT_EQ(peers_.front()->departure(last()), Departure::final);
}

TEST_P(PeersTest, QuietOnlyGrows) {
  Peers& speaker = *peers_.front();
  speaker.say_quiet({0});
  speaker.say_quiet({last()});
  deliver();
  EXPECT_TRUE(peers_.back()->is_quiet_about(0, 0));
  EXPECT_TRUE(peers_.back()->is_quiet_about(0, last()));
  EXPECT_EQ(peers_.back()->is_quiet_about(0, 1), last() == 1);
}

// 65 and more: the set of the lost has several words.
INSTANTIATE_TEST_SUITE_P(Worlds, PeersTest,
                         testing::Combine(testing::Values(Medium::shared_memory, Medium::messages),
                                          testing::Values(2, 3, 5, 8, 70)));

// A damaged word of a peer's is its last.
TEST(HostPeers, AnUnknownDepartureIsFinal) {
  const auto arenas = make_loopback_world(2, RegionLayout::for_size(2));
  arenas[1]->control(1).state.left.store(99);
  EXPECT_EQ(HostPeers(*arenas[0]).departure(1), Departure::final);
}

TEST(MessagePeers, AreToldAfterWhatWasSentBefore) {
  LoopbackNet net(2);
  Mailbox first(&net.transport(0), 0, 2);
  Mailbox second(&net.transport(1), 1, 2);
  MessagePeers speaker(first, [] {});
  const MessagePeers listener(second, [] {});
  speaker.before_frozen([&] {
    first.compose(0);
    first.send(1, {1, 0, 1});
  });
  speaker.say_frozen(3, 0);
  EXPECT_EQ(speaker.frozen_in(0), 0u) << "others have not been told, and not what was published before";
  EXPECT_EQ(net.news(1), 0u) << "any thread may say it, links are for the one that receives";
  speaker.receive();
  EXPECT_EQ(listener.frozen_in(0), 0u) << "nothing was received";
  second.receive();
  EXPECT_EQ(listener.frozen_in(0), 3u);
  EXPECT_TRUE(second.has(0, {1, 0, 1}));
}

TEST(MessagePeers, ANoteThatSaysNothingEndsTheMailbox) {
  for (const std::uint32_t word : {0u, 2u, 9u}) {  // a departure, a set of the lost and a word that there is not
    LoopbackNet net(2);
    Mailbox first(&net.transport(0), 0, 2);
    Mailbox second(&net.transport(1), 1, 2);
    const MessagePeers listener(second, [] {});
    const std::uint32_t note[] = {word, 99};
    std::memcpy(first.compose(sizeof note).data(), note, sizeof note);
    first.send_note(1);
    second.receive();
    EXPECT_EQ(second.status().code(), Code::internal) << word;
    EXPECT_EQ(listener.departure(0), Departure::none);
  }
}

TEST(MessagePeers, WakeTheirOwnMemberThemselves) {
  LoopbackNet net(2);
  Mailbox mailbox(&net.transport(0), 0, 2);
  int woken = 0;
  MessagePeers peers(mailbox, [&] { ++woken; });
  peers.wake(0);
  EXPECT_EQ(woken, 1);
  const std::uint64_t seen = net.news(1);
  peers.wake(1);
  EXPECT_GT(net.news(1), seen);
  peers.say_frozen(1, 0);
  EXPECT_EQ(woken, 2);
}

}  // namespace
}  // namespace ronde::transport
