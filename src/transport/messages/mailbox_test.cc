#include "transport/messages/mailbox.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "transport/loopback/links.h"

namespace ronde::transport {
namespace {

class MailboxTest : public testing::Test {
 protected:
  void send(Mailbox& from, int to, const MessageKey& key, const std::string& text, std::uint64_t mark = 0) {
    const auto payload = from.compose(text.size());
    std::memcpy(payload.data(), text.data(), text.size());
    from.send(to, key, mark);
  }
  std::string taken(Mailbox& by, int from, const MessageKey& key) {
    Received message;
    if (!by.take(from, key, message)) {
      return "nothing";
    }
    mark_ = message.mark;
    return {reinterpret_cast<const char*>(message.payload.data()), message.payload.size()};
  }

  LoopbackNet net_{3, 100};
  Mailbox first_{&net_.transport(0), 0, 3};
  Mailbox second_{&net_.transport(1), 1, 3};
  std::uint64_t mark_ = 0;
};

TEST_F(MailboxTest, HandsOutByKeyWhateverTheOrder) {
  send(first_, 1, {1, 0, 5}, "a", 17);
  send(first_, 1, {2, 0, 5}, "");
  send(first_, 1, {1, 1, 5}, "c");
  EXPECT_EQ(taken(second_, 0, {1, 1, 5}), "c");
  EXPECT_EQ(taken(second_, 0, {1, 1, 5}), "nothing");
  EXPECT_EQ(taken(second_, 0, {1, 0, 5}), "a");
  EXPECT_EQ(mark_, 17u);
  EXPECT_EQ(taken(second_, 2, {2, 0, 5}), "nothing") << "it came from rank 0";
  EXPECT_EQ(second_.kept(), 1u);
  EXPECT_EQ(taken(second_, 0, {2, 0, 5}), "");
  EXPECT_EQ(second_.kept(), 0u);
}

TEST_F(MailboxTest, ForgetsInstancesThatAreOver) {
  send(first_, 1, {1, 0, 4}, "old");
  send(first_, 1, {1, 0, 5}, "new");
  send(first_, 1, {2, 0, 4}, "another's");
  EXPECT_TRUE(second_.receive());
  second_.forget_before(1, 5);
  send(first_, 1, {1, 1, 4}, "late");
  EXPECT_EQ(taken(second_, 0, {1, 1, 4}), "nothing");
  EXPECT_EQ(taken(second_, 0, {1, 0, 5}), "new");
  EXPECT_EQ(taken(second_, 0, {2, 0, 4}), "another's");
}

TEST_F(MailboxTest, WhatIsExpectedLiesInItsPlace) {
  std::string place = "........";
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(place));
  second_.expect_at(0, {1, 0, 5}, 9, bytes);
  send(first_, 1, {1, 0, 5}, "too long.", 9);
  send(first_, 1, {1, 1, 5}, "another.", 9);
  EXPECT_TRUE(second_.receive());
  EXPECT_EQ(place, "........");
  send(first_, 1, {1, 0, 6}, "expected", 9);
  second_.expect_at(0, {1, 0, 6}, 8, bytes);
  EXPECT_TRUE(second_.receive());
  EXPECT_EQ(place, "........") << "its mark is another";
  send(first_, 1, {1, 0, 7}, "expected", 9);
  second_.expect_at(0, {1, 0, 7}, 9, bytes);
  EXPECT_TRUE(second_.receive());
  EXPECT_EQ(place, "expected");
  EXPECT_TRUE(second_.has(0, {1, 0, 7}));
  Received message;
  ASSERT_TRUE(second_.take(0, {1, 0, 7}, message));
  EXPECT_TRUE(message.is_placed);
  EXPECT_TRUE(message.payload.empty());
  EXPECT_EQ(message.mark, 9u);
  EXPECT_TRUE(second_.status());
}

TEST_F(MailboxTest, AnEndThatWasNotPlacedIsMissed) {
  const std::array<std::uint64_t, 4> header = {7, 5, 0, 8};  // and no payload of 8 bytes
  net_.transport(0).link(1).send(std::as_bytes(std::span(header)));
  second_.receive();
  EXPECT_EQ(second_.status().code(), Code::internal);
}

TEST_F(MailboxTest, PayloadsAreAlignedForEveryElement) {
  send(first_, 1, {1, 0, 1}, "0123456789abcdef");
  Received message;
  ASSERT_TRUE(second_.take(0, {1, 0, 1}, message));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message.payload.data()) % 16, 0u);
}

TEST_F(MailboxTest, WhatIsNoMessageEndsIt) {
  net_.transport(0).link(1).send(std::vector<std::byte>(31));
  EXPECT_FALSE(second_.receive());
  EXPECT_EQ(second_.status().code(), Code::internal);
  send(first_, 1, {1, 0, 1}, "a");
  EXPECT_EQ(taken(second_, 0, {1, 0, 1}), "nothing");
}

TEST_F(MailboxTest, OneMessageTwiceEndsIt) {
  send(first_, 1, {1, 0, 1}, "a");
  send(first_, 1, {1, 0, 1}, "a");
  second_.receive();
  EXPECT_EQ(second_.status().code(), Code::internal);
}

}  // namespace
}  // namespace ronde::transport
