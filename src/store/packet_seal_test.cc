#include "store/packet_seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "store/testing/packets.h"

namespace ronde::store {
namespace {

using Bytes = std::vector<std::byte>;

Bytes seal(PacketSeal& end, const Bytes& plain) {
  Bytes sealed(plain.size() + PacketSeal::kBytes);
  end.seal(plain, sealed);
  return sealed;
}

std::optional<Bytes> open(PacketSeal& end, const Bytes& sealed) {
  Bytes plain(sealed.size() - PacketSeal::kBytes);
  return end.open(sealed, plain) ? std::optional(plain) : std::nullopt;
}

TEST(PacketSeal, OpensWhatTheOtherEndHasSealedInBothDirections) {
  PacketSeal a(key_of(1), key_of(2));
  PacketSeal b(key_of(2), key_of(1));
  for (const std::size_t size : {0U, 1U, 100U, 70000U}) {
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(open(b, seal(a, bytes_of(size, 1))), bytes_of(size, 1)) << size;
      EXPECT_EQ(open(a, seal(b, bytes_of(size, 2))), bytes_of(size, 2)) << size;
    }
  }
}

TEST(PacketSeal, WhatIsSealedCannotBeRead) {
  PacketSeal a(key_of(1), key_of(2));
  const Bytes plain = bytes_of(20, 1);
  const Bytes first = seal(a, plain);
  const Bytes second = seal(a, plain);
  EXPECT_EQ(std::search(first.begin(), first.end(), plain.begin(), plain.end()), first.end());
  EXPECT_NE(first, second) << "equal packets are not seen to be equal";
}

TEST(PacketSeal, AChangedBitAnywhereIsNoticed) {
  PacketSeal a(key_of(1), key_of(2));
  const Bytes sealed = seal(a, bytes_of(10, 1));
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    Bytes changed = sealed;
    changed[i] ^= std::byte{1};
    PacketSeal b(key_of(2), key_of(1));
    EXPECT_FALSE(open(b, changed)) << i;
  }
  PacketSeal b(key_of(2), key_of(1));
  EXPECT_TRUE(open(b, sealed));
}

TEST(PacketSeal, RepeatedLeftOutAndSentBackPacketsAreNoticed) {
  PacketSeal a(key_of(1), key_of(2));
  const Bytes first = seal(a, bytes_of(10, 1));
  const Bytes second = seal(a, bytes_of(10, 2));
  PacketSeal repeated(key_of(2), key_of(1));
  EXPECT_TRUE(open(repeated, first));
  EXPECT_FALSE(open(repeated, first));
  PacketSeal left_out(key_of(2), key_of(1));
  EXPECT_FALSE(open(left_out, second));
  EXPECT_TRUE(open(left_out, second)) << "what could not be opened counts as the first";
  EXPECT_FALSE(open(a, first)) << "to its author";
}

TEST(PacketSeal, WithAnotherKeyNothingOpens) {
  PacketSeal a(key_of(1), key_of(2));
  PacketSeal b(key_of(2), key_of(3));
  EXPECT_FALSE(open(b, seal(a, bytes_of(10, 1))));
}

}  // namespace
}  // namespace ronde::store
