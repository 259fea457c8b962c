#include "collectives/shm/channel.h"

#include <gtest/gtest.h>

#include "collectives/shm/testing/world.h"

namespace ronde::collectives {
namespace {

TEST(HostChannel, CountsTicksFromOneAndAroundTheSlots) {
  World world(tiny_slots(2, 3));
  HostChannel& channel = world.channel(0);
  EXPECT_EQ(channel.begin(2), 1u);
  EXPECT_EQ(channel.begin(0), 3u);
  EXPECT_EQ(channel.begin(1), 3u);
  EXPECT_EQ(channel.input(0, 1), channel.input(0, 4));
  EXPECT_NE(channel.input(0, 1), channel.input(0, 2));
  EXPECT_NE(channel.input(0, 1), channel.input(1, 1));
  EXPECT_NE(channel.result(0, 1), channel.input(0, 1));
}

TEST(HostChannel, ASlotIsFreeOnceEveryPeerHasReducedItsLastTick) {
  World world(tiny_slots(3, 2));
  HostChannel& channel = world.channel(0);
  channel.begin(10);
  EXPECT_TRUE(channel.input_free(2));
  EXPECT_FALSE(channel.input_free(3));
  world.channel(1).set_reduced(1);
  EXPECT_FALSE(channel.input_free(3));
  EXPECT_EQ(channel.holding_input(3), std::vector<int>{2});
  EXPECT_EQ(channel.holding_result(3), (std::vector<int>{1, 2})) << "neither has copied tick 1";
  world.channel(2).set_reduced(2);
  EXPECT_TRUE(channel.input_free(3));
  EXPECT_FALSE(channel.input_free(4));
  EXPECT_FALSE(channel.result_free(3));
  world.channel(1).set_copied(1);
  world.channel(2).set_copied(1);
  EXPECT_TRUE(channel.result_free(3));
  EXPECT_EQ(channel.holding_input(3), std::vector<int>{});
  EXPECT_EQ(channel.holding_result(3), std::vector<int>{});
}

TEST(HostChannel, APeerInALaterOperationIsDoneWithTheEarlier) {
  World world(tiny_slots(2, 2));
  HostChannel& channel = world.channel(0);
  channel.begin(1);
  channel.begin(5);
  EXPECT_FALSE(channel.input_free(3));
  world.channel(1).publish(1);
  EXPECT_FALSE(channel.input_free(3)) << "tick 1 is of the operation before and may still be read";
  world.channel(1).publish(2);
  EXPECT_TRUE(channel.input_free(3));
  EXPECT_FALSE(channel.input_free(4)) << "tick 2 is of the operation under way";
}

TEST(HostChannel, FlagsWakeWhoSleeps) {
  const auto arenas = transport::make_loopback_world(3, tiny_slots(3));
  HostChannel channel(*arenas[0]);
  const auto woken_by = [&](auto store) {
    transport::Sleeper(arenas[1]->control(1).bell).arm(transport::kEngineSleeps);
    transport::Sleeper(arenas[1]->control(2).bell).arm(transport::kEngineSleeps);
    store();
    return arenas[1]->control(1).bell.state.load() == transport::kAwake &&
           arenas[1]->control(2).bell.state.load() == transport::kAwake;
  };
  EXPECT_TRUE(woken_by([&] { channel.publish(1); }));
  EXPECT_TRUE(woken_by([&] { channel.set_reduced(1); }));
  EXPECT_TRUE(woken_by([&] { channel.set_copied(1); }));
  EXPECT_TRUE(woken_by([&] { channel.finish(2); }));
}

}  // namespace
}  // namespace ronde::collectives
