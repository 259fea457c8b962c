#include "transport/tcp/outgoing_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace ronde::transport {
namespace {

/// A stream that has room for so many bytes at a time.
struct Wire {
  std::size_t room = 0;
  std::string text = {};
  std::size_t most_parts = 0;  ///< that came at once
  int calls = 0;

  std::size_t write(Parts parts) {
    ++calls;
    most_parts = std::max(most_parts, parts.size());
    std::size_t taken = 0;
    for (const std::span<const std::byte> part : parts) {
      const std::size_t next = std::min(part.size(), room);
      text.append(reinterpret_cast<const char*>(part.data()), next);
      room -= next;
      taken += next;
    }
    return taken;
  }
};

bool flush(OutgoingBytes& bytes, Wire& wire) {
  return bytes.flush([&](Parts parts) { return wire.write(parts); });
}

std::span<const std::byte> of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(OutgoingBytes, ANewOneHasNothingToGive) {
  OutgoingBytes bytes;
  Wire wire{100};
  EXPECT_TRUE(bytes.is_empty());
  EXPECT_FALSE(bytes.has_lent());
  EXPECT_TRUE(flush(bytes, wire));
  EXPECT_EQ(wire.calls, 0);
}

TEST(OutgoingBytes, GoInOrderHoweverLittleRoomThereIs) {
  for (std::size_t room = 1; room < 14; ++room) {
    OutgoingBytes bytes;
    Wire wire;
    bytes.keep(of("abc"));
    bytes.keep(of("defg"));
    bytes.lend(of("hi"));
    bytes.lend(of("j"));
    bytes.lend(of("klm"));
    int rounds = 0;
    do {
      ASSERT_LT(++rounds, 15) << room;
      wire.room = room;
    } while (!flush(bytes, wire));
    EXPECT_EQ(wire.text, "abcdefghijklm") << room;
    EXPECT_TRUE(bytes.is_empty());
    EXPECT_FALSE(bytes.has_lent());
    bytes.keep(of("again"));
    wire.room = 100;
    EXPECT_TRUE(flush(bytes, wire));
    EXPECT_EQ(wire.text, "abcdefghijklmagain");
  }
}

TEST(OutgoingBytes, WhatIsKeptIsACopyAndWhatIsLentIsNot) {
  OutgoingBytes bytes;
  std::string kept = "kept";
  std::string lent = "lent";
  bytes.keep(of(kept));
  bytes.lend(of(lent));
  kept = "????";
  lent = "LENT";
  Wire wire{100};
  EXPECT_TRUE(flush(bytes, wire));
  EXPECT_EQ(wire.text, "keptLENT");
}

TEST(OutgoingBytes, KeepLentCopiesWhatHasNotGone) {
  OutgoingBytes bytes;
  std::string first = "first";
  std::string second = "second";
  bytes.lend(of(first));
  bytes.lend(of(second));
  Wire wire{7};
  EXPECT_FALSE(flush(bytes, wire));
  EXPECT_TRUE(bytes.has_lent());
  bytes.keep_lent();
  EXPECT_FALSE(bytes.has_lent());
  EXPECT_FALSE(bytes.is_empty());
  first = second = "??????";
  bytes.keep(of("!"));
  wire.room = 100;
  EXPECT_TRUE(flush(bytes, wire));
  EXPECT_EQ(wire.text, "firstsecond!");
}

TEST(OutgoingBytes, DropLeavesNothingAlsoWithinAWrite) {
  OutgoingBytes bytes;
  bytes.keep(of("a"));
  bytes.lend(of("b"));
  bytes.drop();
  EXPECT_TRUE(bytes.is_empty());
  for (const bool is_kept : {true, false}) {
    if (is_kept) {
      bytes.keep(of("a"));
    }
    bytes.lend(of("b"));
    EXPECT_TRUE(bytes.flush([&](Parts) {
      bytes.drop();  // as when the connection turns out to be broken
      return std::size_t{0};
    })) << is_kept;
    EXPECT_TRUE(bytes.is_empty());
  }
}

TEST(OutgoingBytes, NoMorePartsComeAtOnceThanOneCallTakes) {
  OutgoingBytes bytes;
  std::string expected;
  for (std::size_t i = 0; i < 3 * OutgoingBytes::kMostParts + 1; ++i) {
    bytes.lend(of("xy"));
    expected += "xy";
  }
  Wire wire{1000000};
  EXPECT_TRUE(flush(bytes, wire));
  EXPECT_EQ(wire.text, expected);
  EXPECT_EQ(wire.most_parts, OutgoingBytes::kMostParts);
  EXPECT_EQ(wire.calls, 4);
}

}  // namespace
}  // namespace ronde::transport
