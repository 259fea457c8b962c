#include "store/packet_framing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "store/testing/packets.h"

namespace ronde::store {
namespace {

constexpr std::size_t kMost = 1000;

class Framing : public testing::TestWithParam<bool> {
 protected:
  Framing() {
    if (GetParam()) {
      a_.seal(key_of(1), key_of(2));
      b_.seal(key_of(2), key_of(1));
    }
  }
  std::size_t seal_bytes() const { return GetParam() ? PacketSeal::kBytes : 0; }
  std::vector<std::byte> framed(const std::vector<std::byte>& packet) {
    a_.put(packet);
    std::vector<std::byte> bytes(a_.unsent().begin(), a_.unsent().end());
    a_.note_sent(bytes.size());
    return bytes;
  }

  PacketFraming a_, b_;
  std::vector<std::byte> packet_;
};
INSTANTIATE_TEST_SUITE_P(PacketFraming, Framing, testing::Bool());

TEST_P(Framing, APacketComesWholeHoweverItsBytesCome) {
  for (const std::size_t piece : {1U, 3U, 4U, 5U, 4096U}) {
    for (const std::size_t size : {0U, 1U, 7U, 1000U}) {
      const std::vector<std::byte> bytes = framed(bytes_of(size, 1));
      ASSERT_EQ(bytes.size(), 4 + size + seal_bytes());
      for (std::size_t at = 0; at < bytes.size();) {
        const std::optional<std::size_t> missing = b_.missing(kMost);
        ASSERT_TRUE(missing);
        ASSERT_EQ(*missing, at < 4 ? 4 - at : bytes.size() - at);
        const std::size_t next = std::min(piece, *missing);
        b_.add(std::span(bytes).subspan(at, next));
        at += next;
      }
      ASSERT_EQ(b_.missing(kMost), 0u) << size << " by " << piece;
      ASSERT_TRUE(b_.take(packet_));
      EXPECT_EQ(packet_, bytes_of(size, 1)) << size << " by " << piece;
      EXPECT_EQ(b_.missing(kMost), 4u) << "the next one's length";
    }
  }
}

TEST_P(Framing, WhatHasNotGoneIsLeft) {
  EXPECT_TRUE(a_.unsent().empty());
  a_.put(bytes_of(10, 1));
  const std::vector<std::byte> all(a_.unsent().begin(), a_.unsent().end());
  a_.note_sent(5);
  EXPECT_TRUE(std::ranges::equal(a_.unsent(), std::span(all).subspan(5)));
  a_.note_sent(all.size() - 5);
  EXPECT_TRUE(a_.unsent().empty());
}

TEST_P(Framing, ALengthBeyondTheLimitIsSeenBeforeThePacketComes) {
  const std::vector<std::byte> bytes = framed(bytes_of(41, 1));
  b_.add(std::span(bytes).first(4));
  EXPECT_FALSE(b_.missing(40));
  EXPECT_EQ(b_.missing(41), 41 + seal_bytes());
}

TEST(PacketFraming, ALengthIsAU32InTheMachinesOrder) {
  PacketFraming a;
  a.put(bytes_of(3, 1));
  const std::uint32_t length = 3;
  ASSERT_EQ(a.unsent().size(), 7u);
  EXPECT_TRUE(std::ranges::equal(a.unsent().first(4), std::as_bytes(std::span(&length, 1))));
  EXPECT_TRUE(std::ranges::equal(a.unsent().subspan(4), bytes_of(3, 1)));
}

TEST(PacketFraming, ALengthWithoutRoomForTheSealCannotBe) {
  PacketFraming b;
  b.seal(key_of(2), key_of(1));
  const std::uint32_t length = PacketSeal::kBytes - 1;
  b.add(std::as_bytes(std::span(&length, 1)));
  EXPECT_FALSE(b.missing(kMost));
}

TEST(PacketFraming, ADamagedSealIsNoPacket) {
  PacketFraming a;
  a.seal(key_of(1), key_of(2));
  a.put(bytes_of(10, 1));
  std::vector<std::byte> bytes(a.unsent().begin(), a.unsent().end());
  bytes.back() ^= std::byte{1};
  PacketFraming b;
  b.seal(key_of(2), key_of(1));
  b.add(bytes);
  std::vector<std::byte> packet;
  ASSERT_EQ(b.missing(kMost), 0u);
  EXPECT_FALSE(b.take(packet));
}

}  // namespace
}  // namespace ronde::store
