#include "transport/ofi/fragment_window.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace ronde::transport {
namespace {

TEST(FragmentWindow, NoMoreIsSentThanThePeerHasRoomFor) {
  FragmentWindow window(4);
  for (std::uint64_t number = 1; number <= 4; ++number) {
    ASSERT_TRUE(window.may_send());
    EXPECT_EQ(window.next().number, number);
  }
  EXPECT_FALSE(window.may_send());
  EXPECT_TRUE(window.admit({0, 1}));
  EXPECT_TRUE(window.may_send());
  EXPECT_EQ(window.next().number, 5u);
  EXPECT_FALSE(window.may_send());
  EXPECT_TRUE(window.admit({0, 0})) << "a word that is late";
  EXPECT_FALSE(window.may_send());
  EXPECT_TRUE(window.admit({0, 5}));
  EXPECT_TRUE(window.may_send());
}

TEST(FragmentWindow, AWordIsOwedForHalfAWindow) {
  FragmentWindow window(4);
  window.note_taken();
  EXPECT_FALSE(window.owes_word());
  window.note_taken();
  EXPECT_TRUE(window.owes_word());
  EXPECT_EQ(window.word().taken, 2u);
  EXPECT_FALSE(window.owes_word());
  window.unsay();
  EXPECT_TRUE(window.owes_word());
  EXPECT_EQ(window.next().taken, 2u) << "a fragment says it too";
  EXPECT_FALSE(window.owes_word());
}

TEST(FragmentWindow, WhatNoPeerCanHaveSentIsNotAdmitted) {
  FragmentWindow window(4);
  EXPECT_TRUE(window.admit({1, 0}));
  EXPECT_TRUE(window.admit({4, 0})) << "some providers change the order";
  EXPECT_FALSE(window.admit({5, 0}));
  EXPECT_FALSE(window.admit({UINT64_MAX, 0}));
  window.note_taken();
  EXPECT_EQ(window.due(), 2u);
  EXPECT_FALSE(window.admit({1, 0}));
  EXPECT_TRUE(window.admit({5, 0}));
  EXPECT_FALSE(window.admit({0, 1})) << "nothing was sent";
}

TEST(FragmentHead, IsReadAsItWasWritten) {
  std::array<std::byte, FragmentHead::kBytes> bytes{};
  FragmentHead{7, 5}.write(bytes);
  EXPECT_EQ(bytes[0], std::byte{7});
  EXPECT_EQ(bytes[8], std::byte{5});
  EXPECT_EQ(FragmentHead::read(bytes).number, 7u);
  EXPECT_EQ(FragmentHead::read(bytes).taken, 5u);
}

TEST(FragmentRoom, IsLessForEachTheMoreThereAre) {
  const FragmentRoom one = FragmentRoom::for_peers(1, SIZE_MAX);
  EXPECT_EQ(one.fragment_bytes, 65536u);
  EXPECT_EQ(one.width, 16u);
  std::size_t last = one.bytes();
  for (std::size_t peers : {2, 8, 31, 127, 500, 511, 2000, 100000}) {
    const FragmentRoom room = FragmentRoom::for_peers(peers, SIZE_MAX);
    EXPECT_LE(room.bytes(), last) << peers;
    EXPECT_GE(room.fragment_bytes, 8192u);
    EXPECT_GE(room.width, 4u);
    if (peers <= 500) {
      EXPECT_LE(room.bytes() * peers, std::size_t{64} << 20) << peers;
    }
    last = room.bytes();
  }
  EXPECT_EQ(FragmentRoom::for_peers(1, 4096).fragment_bytes, 4096u);
}

}  // namespace
}  // namespace ronde::transport
