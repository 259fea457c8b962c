#include "transport/tcp/message_tags.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ronde::transport {
namespace {

constexpr Integrity kKeyed[] = {Integrity::mac, Integrity::encrypt};

JobKey tags_key(int seed) {
  JobKey key;
  key.bytes.fill(static_cast<std::byte>(seed));
  return key;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::array<std::byte, MessageTags::kMost> tag_of(MessageTags& tags, std::string_view text) {
  tags.begin();
  tags.add(bytes_of(text));
  return tags.of_message();
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte each : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(each) >> 4U];
    text += kDigits[std::to_integer<unsigned>(each) & 15U];
  }
  return text;
}

TEST(MessageTags, OfPiecesAreThoseOfTheWhole) {
  for (const Integrity integrity : {Integrity::checksum, Integrity::mac, Integrity::encrypt}) {
    MessageTags whole(integrity, tags_key(1));
    MessageTags pieces(integrity, tags_key(1));
    const std::string text(1000, 'x');
    pieces.begin();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t piece = std::min(text.size() - at, at + 1);
      pieces.add(bytes_of(text.substr(at, piece)));
      at += piece;
    }
    EXPECT_EQ(pieces.of_message(), tag_of(whole, text));
  }
}

/// By ChaCha20 and Poly1305 written down in Python after RFC 8439, which give that paper's values in 2.3.2 and 2.5.2.
TEST(MessageTags, AreThoseOfTheStandard) {
  JobKey key;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    key.bytes[i] = static_cast<std::byte>(i);
  }
  MessageTags tags(Integrity::encrypt, key);
  tags.begin();
  std::vector<std::byte> text = bytes_of("abc");
  const auto head = tags.of_head(text);
  tags.add(text);
  EXPECT_EQ(hex(head), "0dae5eaec61e528840b5971275b46b4b");
  EXPECT_EQ(hex(tags.of_message()), "f26c929a5ace8d7866a698483c8c4698");
  tags.crypt(text);
  EXPECT_EQ(hex(text), "f55d18");
}

TEST(MessageTags, OfEachMessageAreItsOwnIfThereIsAKey) {
  for (const Integrity integrity : kKeyed) {
    MessageTags sender(integrity, tags_key(1));
    MessageTags receiver(integrity, tags_key(1));
    const auto first = tag_of(sender, "abc");
    const auto second = tag_of(sender, "abc");
    EXPECT_NE(first, second) << "a message that is repeated, or comes in place of another, is seen";
    EXPECT_EQ(first, tag_of(receiver, "abc"));
    EXPECT_EQ(second, tag_of(receiver, "abc"));
    MessageTags other(integrity, tags_key(2));
    EXPECT_NE(first, tag_of(other, "abc"));
    EXPECT_NE(sender.of_head(bytes_of("abc")), sender.of_message()) << "each has a key of its own";
  }
}

TEST(MessageTags, WhatIsEncryptedIsDecryptedByTheSameMessagesTags) {
  MessageTags sender(Integrity::encrypt, tags_key(1));
  MessageTags receiver(Integrity::encrypt, tags_key(1));
  std::vector<std::vector<std::byte>> travelled;
  for (const std::size_t size : {0UL, 1UL, 63UL, 64UL, 65UL, 100000UL}) {
    const std::vector<std::byte> plain(size, std::byte{7});
    std::vector<std::byte> text = plain;
    sender.begin();
    sender.crypt(text);
    EXPECT_TRUE(size == 0 || text != plain);
    travelled.push_back(text);
    receiver.begin();
    receiver.crypt(text);
    EXPECT_EQ(text, plain);
  }
  travelled[4].resize(64);
  EXPECT_NE(travelled[3], travelled[4]) << "no part of the key stream is used twice";
}

TEST(MessageTags, AreComparedWhole) {
  const std::vector<std::byte> one = bytes_of("abcd");
  EXPECT_TRUE(MessageTags::are_equal(one, one));
  EXPECT_FALSE(MessageTags::are_equal(one, bytes_of("abce")));
  EXPECT_FALSE(MessageTags::are_equal(one, bytes_of("abc")));
  EXPECT_TRUE(MessageTags::are_equal({}, {}));
}

}  // namespace
}  // namespace ronde::transport
