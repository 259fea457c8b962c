#include "transport/tcp/message_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace ronde::transport {
namespace {

constexpr Integrity kAll[] = {Integrity::off, Integrity::checksum, Integrity::mac, Integrity::encrypt};

std::span<const std::byte> text_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

/// As the other end finds it.
MessageHead received(Integrity integrity, MessageHead& sent) {
  MessageHead head(integrity);
  std::ranges::copy(sent.bytes(), head.bytes().begin());
  return head;
}

/// Of a message of these bytes, the first of its direction.
MessageTags tags_of(Integrity integrity, std::string_view text = {}) {
  MessageTags tags(integrity);
  tags.begin();
  tags.add(text_bytes(text));
  return tags;
}

TEST(MessageHead, SaysLengthAndChannelOfAllPartsTogether) {
  const std::span<const std::byte> parts[] = {text_bytes("ab"), text_bytes(""), text_bytes("cde")};
  for (const Integrity integrity : kAll) {
    MessageHead sent(integrity);
    MessageTags tags = tags_of(integrity);
    sent.describe(0x123456789abcdef0, parts, tags);
    const MessageHead head = received(integrity, sent);
    EXPECT_TRUE(head.is_intact(tags_of(integrity)));
    EXPECT_EQ(head.length(), 5u);
    EXPECT_EQ(head.channel(), 0x123456789abcdef0u);
  }
}

TEST(MessageHead, HasTheSameFormForEver) {
  const std::span<const std::byte> part = text_bytes("abc");
  constexpr std::string_view kExpected("\3\0\0\0\x8\7\6\5\4\3\2\1", 12);
  for (const Integrity integrity : kAll) {
    MessageTags tags = tags_of(integrity);
    MessageHead sent(integrity);
    sent.describe(0x0102030405060708, Parts(&part, 1), tags);
    const std::size_t of_message = MessageTags::message_bytes(integrity);
    const std::size_t of_head = MessageTags::head_bytes(integrity);
    ASSERT_EQ(sent.bytes().size(), 12 + of_message + of_head);
    EXPECT_TRUE(std::ranges::equal(sent.bytes().first(12), text_bytes(kExpected)));
    const auto message_tag = tags_of(integrity, "abc").of_message();
    const auto head_tag = tags.of_head(sent.bytes().first(12 + of_message));
    EXPECT_TRUE(std::ranges::equal(sent.bytes().subspan(12, of_message), std::span(message_tag).first(of_message)));
    EXPECT_TRUE(std::ranges::equal(sent.bytes().last(of_head), std::span(head_tag).first(of_head)));
  }
}

TEST(MessageHead, AChangedBitAnywhereIsSeenIfThereAreTags) {
  const std::span<const std::byte> part = text_bytes("abc");
  for (const Integrity integrity : kAll) {
    MessageHead sent(integrity);
    MessageTags tags = tags_of(integrity);
    sent.describe(7, Parts(&part, 1), tags);
    for (std::size_t i = 0; i < sent.size() * 8; ++i) {
      MessageHead head = received(integrity, sent);
      head.bytes()[i / 8] ^= std::byte{1} << (i % 8);
      EXPECT_EQ(head.is_intact(tags_of(integrity)), integrity == Integrity::off) << i;
    }
  }
}

TEST(MessageHead, OtherBytesDoNotMatchIfThereAreTags) {
  const std::span<const std::byte> parts[] = {text_bytes("ab"), text_bytes("c")};
  for (const Integrity integrity : kAll) {
    MessageHead sent(integrity);
    MessageTags tags = tags_of(integrity);
    sent.describe(7, parts, tags);
    EXPECT_TRUE(sent.matches(tags_of(integrity, "abc")));
    EXPECT_EQ(sent.matches(tags_of(integrity, "abd")), integrity == Integrity::off);
  }
}

}  // namespace
}  // namespace ronde::transport
