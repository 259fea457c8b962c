#include "transport/messages/arrived_messages.h"

#include <gtest/gtest.h>

namespace ronde::transport {
namespace {

Received marked(std::uint64_t mark) { return {std::vector<std::byte>(3), {}, mark}; }

/// 0: there is none.
std::uint64_t taken(ArrivedMessages& messages, int from, const MessageKey& key) {
  Received message;
  return messages.take(from, key, message) ? message.mark : 0;
}

TEST(ArrivedMessages, AreHandedOutOnceByKeyAndSender) {
  ArrivedMessages messages(3);
  EXPECT_TRUE(messages.put(0, {1, 0, 5}, marked(7)));
  EXPECT_TRUE(messages.put(2, {1, 0, 5}, marked(8)));
  EXPECT_TRUE(messages.put(0, {1, 1, 5}, marked(9)));
  EXPECT_EQ(messages.count(), 3u);
  EXPECT_TRUE(messages.has(0, {1, 1, 5}));
  EXPECT_FALSE(messages.has(2, {1, 1, 5}));
  EXPECT_EQ(taken(messages, 0, {1, 1, 5}), 9u);
  EXPECT_EQ(taken(messages, 0, {1, 1, 5}), 0u);
  EXPECT_EQ(taken(messages, 2, {1, 0, 5}), 8u);
  EXPECT_EQ(taken(messages, 1, {1, 0, 5}), 0u);
  EXPECT_EQ(taken(messages, 0, {1, 0, 5}), 7u);
  EXPECT_EQ(messages.count(), 0u);
}

TEST(ArrivedMessages, OneOfAKeyStaysTheFirst) {
  ArrivedMessages messages(2);
  EXPECT_TRUE(messages.put(1, {1, 0, 5}, marked(7)));
  EXPECT_FALSE(messages.put(1, {1, 0, 5}, marked(8)));
  EXPECT_EQ(taken(messages, 1, {1, 0, 5}), 7u);
}

TEST(ArrivedMessages, ForgetOldInstancesOfOneCollective) {
  ArrivedMessages messages(2);
  ASSERT_TRUE(messages.put(1, {1, 3, 4}, marked(1)));
  ASSERT_TRUE(messages.put(1, {1, 0, 5}, marked(2)));
  ASSERT_TRUE(messages.put(1, {2, 0, 4}, marked(3)));
  messages.forget_before(1, 5);
  EXPECT_EQ(messages.count(), 2u);
  EXPECT_TRUE(messages.is_forgotten({1, 9, 4}));
  EXPECT_FALSE(messages.is_forgotten({1, 9, 5}));
  EXPECT_FALSE(messages.is_forgotten({2, 9, 4}));
}

TEST(ArrivedMessages, ACollectiveThatIsForgottenMayBeginAnew) {
  ArrivedMessages messages(2);
  ASSERT_TRUE(messages.put(1, {1, 0, 5}, marked(2)));
  messages.forget(1);
  EXPECT_EQ(messages.count(), 0u);
  EXPECT_FALSE(messages.is_forgotten({1, 0, 1}));
}

}  // namespace
}  // namespace ronde::transport
