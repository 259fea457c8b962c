#include "transport/tcp/message_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace ronde::transport {
namespace {

std::span<const std::byte> text_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

/// As the other end finds it.
MessageHead received(Integrity integrity, MessageHead& sent) {
  MessageHead head(integrity);
  std::ranges::copy(sent.bytes(), head.bytes().begin());
  return head;
}

TEST(MessageHead, SaysLengthAndChannelOfAllPartsTogether) {
  const std::span<const std::byte> parts[] = {text_bytes("ab"), text_bytes(""), text_bytes("cde")};
  for (const Integrity integrity : {Integrity::off, Integrity::checksum}) {
    MessageHead sent(integrity);
    sent.describe(0x123456789abcdef0, parts);
    const MessageHead head = received(integrity, sent);
    EXPECT_TRUE(head.is_intact());
    EXPECT_EQ(head.length(), 5u);
    EXPECT_EQ(head.channel(), 0x123456789abcdef0u);
  }
}

TEST(MessageHead, HasTheSameFormForEver) {
  const std::span<const std::byte> part = text_bytes("abc");
  MessageHead plain(Integrity::off);
  plain.describe(0x0102030405060708, Parts(&part, 1));
  constexpr std::string_view expected("\3\0\0\0\x8\7\6\5\4\3\2\1", 12);
  EXPECT_TRUE(std::ranges::equal(plain.bytes(), text_bytes(expected)));
  MessageHead summed(Integrity::checksum);
  summed.describe(0x0102030405060708, Parts(&part, 1));
  EXPECT_EQ(summed.bytes().size(), 24u);
  EXPECT_TRUE(std::ranges::equal(summed.bytes().first(12), text_bytes(expected)));
  const std::uint64_t sum = Checksum::of(part);
  EXPECT_TRUE(std::ranges::equal(summed.bytes().subspan(12, 8), std::as_bytes(std::span(&sum, 1))));
  const auto own = static_cast<std::uint32_t>(Checksum::of(summed.bytes().first(20)));
  EXPECT_TRUE(std::ranges::equal(summed.bytes().subspan(20), std::as_bytes(std::span(&own, 1))));
}

TEST(MessageHead, AChangedBitAnywhereIsSeenIfThereIsAChecksum) {
  const std::span<const std::byte> part = text_bytes("abc");
  for (const Integrity integrity : {Integrity::off, Integrity::checksum}) {
    MessageHead sent(integrity);
    sent.describe(7, Parts(&part, 1));
    for (std::size_t i = 0; i < sent.size() * 8; ++i) {
      MessageHead head = received(integrity, sent);
      head.bytes()[i / 8] ^= std::byte{1} << (i % 8);
      EXPECT_EQ(head.is_intact(), integrity == Integrity::off) << i;
    }
  }
}

TEST(MessageHead, OtherBytesDoNotMatchIfThereIsAChecksum) {
  const std::span<const std::byte> parts[] = {text_bytes("ab"), text_bytes("c")};
  Checksum same, other;
  same.add(text_bytes("abc"));
  other.add(text_bytes("abd"));
  MessageHead summed(Integrity::checksum);
  summed.describe(7, parts);
  EXPECT_TRUE(summed.matches(same));
  EXPECT_FALSE(summed.matches(other));
  MessageHead plain(Integrity::off);
  plain.describe(7, parts);
  EXPECT_TRUE(plain.matches(other));
}

}  // namespace
}  // namespace ronde::transport
