#include "checksum/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace ronde {
namespace {

std::vector<std::byte> some_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = 1;
  for (std::byte& each : bytes) {
    state = state * 1664525U + 1013904223U;
    each = static_cast<std::byte>(state >> 24U);
  }
  return bytes;
}

/// Around what xxHash treats in another way: 16, 128, 240 bytes, a stripe, its buffer, a block.
constexpr std::size_t kSizes[] = {0,   1,   3,   4,   8,   9,    16,   17,   63,   64,    65,    128,   129,    240,
                                  241, 255, 256, 257, 511, 512, 1023, 1024, 1025, 4096, 65535, 65536, 65537, 1 << 20};

std::uint64_t in_pieces(const Xxh3& way, std::span<const std::byte> bytes, std::size_t piece) {
  Checksum sum(way);
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    sum.add(bytes.subspan(at, std::min(piece, bytes.size() - at)));
  }
  return sum.value();
}

TEST(Checksum, IsTheStandards) {
  // From xxHash's own `xxhsum -H3`, which prints them for these inputs.
  const auto of = [](std::string_view text) { return Checksum::of(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of(""), 0x2d06800538d394c2U);
  EXPECT_EQ(of("a"), 0xe6c632b61e964e1fU);
  EXPECT_EQ(of("abc"), 0x78af5f94892f3950U);
}

TEST(Checksum, EveryLevelGivesTheSameInAnyPieces) {
  const std::vector<std::byte> all = some_bytes((1 << 20) + 1);
  for (const std::size_t size : kSizes) {
    // Once aligned, once not.
    for (const std::size_t from : {std::size_t{0}, std::size_t{1}}) {
      const auto bytes = std::span(all).subspan(from, size);
      const std::uint64_t expected = runnable_xxh3().front()->of(bytes.data(), size);
      for (const Xxh3* way : runnable_xxh3()) {
        EXPECT_EQ(way->of(bytes.data(), size), expected) << way->level << ", " << size;
        for (const std::size_t piece : {std::size_t{13}, std::size_t{256}, std::size_t{4097}, std::size_t{1 << 20}}) {
          EXPECT_EQ(in_pieces(*way, bytes, piece), expected) << way->level << ", " << size << " by " << piece;
        }
      }
    }
  }
}

TEST(Checksum, BeginsAnew) {
  Checksum sum;
  sum.add(some_bytes(1000));
  sum.begin();
  EXPECT_EQ(sum.value(), Checksum::of({}));
}

TEST(Checksum, ABitThatChangesIsSeen) {
  std::vector<std::byte> bytes = some_bytes(70000);
  const std::uint64_t before = Checksum::of(bytes);
  for (const std::size_t at : {std::size_t{0}, std::size_t{255}, std::size_t{1024}, std::size_t{69999}}) {
    bytes[at] ^= std::byte{16};
    EXPECT_NE(Checksum::of(bytes), before) << at;
    bytes[at] ^= std::byte{16};
  }
  EXPECT_EQ(Checksum::of(bytes), before);
}

}  // namespace
}  // namespace ronde
