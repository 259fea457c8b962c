#include "transport/arena/host_bells.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <deque>

namespace ronde::transport {
namespace {

/// Ranks whose engine threads all sleep.
class HostBellsTest : public testing::Test {
 protected:
  HostBells bells_of(int own, int size, bool is_group = false) {
    std::vector<HostBell> bells;
    for (int rank = 0; rank < size; ++rank) {
      Rank& each = ranks_.emplace_back();
      each.event_fd = make_bell_fd().value();
      Sleeper(each.line).arm(kEngineSleeps);
      bells.push_back({&each.line, each.event_fd.get(), is_group ? &each.calls : nullptr, 64 + rank});
    }
    return HostBells(own, std::move(bells));
  }
  bool is_rung(std::size_t rank) {
    pollfd entry{ranks_[rank].event_fd.get(), POLLIN, 0};
    const bool is_awake = ranks_[rank].line.state.load() == kAwake;
    EXPECT_EQ(::poll(&entry, 1, 0) == 1, is_awake) << rank;
    return is_awake;
  }
  std::uint64_t called(std::size_t rank) { return ranks_[rank].calls.words[1].load(); }

 private:
  struct Rank {
    BellLine line;
    CallLine calls;
    UniqueFd event_fd;
  };
  std::deque<Rank> ranks_;
};

TEST_F(HostBellsTest, WakesOneRankAndNoOther) {
  const HostBells bells = bells_of(0, 3);
  bells.ring(2);
  EXPECT_TRUE(is_rung(2));
  EXPECT_FALSE(is_rung(0));
  EXPECT_FALSE(is_rung(1));
  bells.ring(0);
  EXPECT_TRUE(is_rung(0)) << "its own threads wake each other";
}

TEST_F(HostBellsTest, WakesAllOthers) {
  std::size_t first = 0;  // of this world's in all that were made
  for (const std::size_t own : {0, 1, 4}) {
    const HostBells bells = bells_of(static_cast<int>(own), 5);
    bells.ring_others();
    for (std::size_t rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(is_rung(first + rank), rank != own) << own;
    }
    first += 5;
  }
}

TEST_F(HostBellsTest, OfARankAloneHasNobodyToWake) {
  const HostBells bells = bells_of(0, 1);
  bells.ring_others();
  EXPECT_FALSE(is_rung(0));
  bells.ring(0);
  EXPECT_TRUE(is_rung(0));
}

TEST_F(HostBellsTest, WithoutAGroupNobodyIsCalled) {
  const HostBells bells = bells_of(0, 2);
  bells.ring_others();
  EXPECT_EQ(called(1), 0u);
}

TEST_F(HostBellsTest, OfAGroupSayForWhichInTheRanksOwnLine) {
  const HostBells bells = bells_of(1, 3, true);
  bells.ring_others();
  EXPECT_EQ(called(0), 1u << 0);
  EXPECT_EQ(called(1), 0u);
  EXPECT_EQ(called(2), 1u << 2);
  EXPECT_TRUE(is_rung(0));
  EXPECT_TRUE(is_rung(2));
  bells.ring(1);
  EXPECT_EQ(called(1), 1u << 1);
}

TEST_F(HostBellsTest, GiveTheDescriptorThatTheOwnThreadsSleepOn) {
  const HostBells bells = bells_of(1, 2);
  EXPECT_EQ(bells.own_fd(), bells.of(1).event_fd);
  EXPECT_NE(bells.own_fd(), bells.of(0).event_fd);
}

}  // namespace
}  // namespace ronde::transport
