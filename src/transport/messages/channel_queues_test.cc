#include "transport/messages/channel_queues.h"

#include <gtest/gtest.h>

#include <vector>

namespace ronde::transport {
namespace {

using Message = std::vector<std::byte>;

TEST(ChannelQueues, EachChannelGetsItsMessagesInOrder) {
  ChannelQueues queues;
  EXPECT_TRUE(queues.is_empty());
  for (const int value : {1, 2, 3, 4}) {
    Message message(5, std::byte(value));
    queues.push(value % 2, message);
    EXPECT_TRUE(message.empty()) << "it is the queue's now";
  }
  Message message;
  EXPECT_TRUE(queues.pop(0, message));
  EXPECT_EQ(message, Message(5, std::byte{2}));
  EXPECT_TRUE(queues.pop(1, message));
  EXPECT_EQ(message, Message(5, std::byte{1}));
  EXPECT_TRUE(queues.pop(1, message));
  EXPECT_EQ(message, Message(5, std::byte{3}));
  EXPECT_FALSE(queues.has(1));
  EXPECT_FALSE(queues.pop(1, message));
  EXPECT_TRUE(queues.has(0));
}

TEST(ChannelQueues, AForgottenChannelLeavesNothing) {
  ChannelQueues queues;
  Message message(1);
  queues.push(7, message);
  queues.forget(8);
  EXPECT_TRUE(queues.has(7));
  queues.forget(7);
  EXPECT_TRUE(queues.is_empty());
}

}  // namespace
}  // namespace ronde::transport
