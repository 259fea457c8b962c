#include "base/copy_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ronde {
namespace {

constexpr std::size_t kPage = 4096;

/// Bytes that tell where they stand, with no period that a piece could have.
std::vector<std::uint8_t> pattern(std::size_t bytes) {
  std::vector<std::uint8_t> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    made[i] = static_cast<std::uint8_t>((i * 2654435761u) >> 13);
  }
  return made;
}

/// The first byte of the memory that lies at this place within a page.
std::uint8_t* at(std::vector<std::uint8_t>& memory, std::size_t place) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (place + kPage - begin % kPage) % kPage;
}

TEST(CopyBytes, CopiesAllAndNoMoreWhereverTheTargetLies) {
  for (const std::size_t bytes : {0, 1, 1023, 2047, 2048, 2049, 3072, 5000, 70001}) {
    const std::vector<std::uint8_t> expected = pattern(bytes);
    for (const std::size_t behind : {0, 1, 4, 16, 31, 32, 63, 64, 4095}) {
      std::vector<std::uint8_t> source(bytes + 2 * kPage);
      std::vector<std::uint8_t> target(bytes + 4 * kPage, 0xA5);
      std::copy(expected.begin(), expected.end(), at(source, 8));
      std::uint8_t* const to = at(target, 8 + behind);
      copy_bytes(to, at(source, 8), bytes);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), to)) << bytes << " bytes, " << behind << " behind";
      EXPECT_EQ(std::count(target.data(), to, 0xA5), to - target.data());
      const std::uint8_t* const end = target.data() + target.size();
      EXPECT_EQ(std::count(static_cast<const std::uint8_t*>(to + bytes), end, 0xA5), end - (to + bytes));
    }
  }
}

TEST(MoveBytes, MovesWithinARangeEitherWay) {
  for (const std::ptrdiff_t distance : {-5000, -16, -1, 0, 1, 16, 40, 1024, 5000}) {
    const std::vector<std::uint8_t> expected = pattern(70001);
    std::vector<std::uint8_t> memory(expected.size() + 10000);
    std::copy(expected.begin(), expected.end(), memory.begin() + 5000);
    move_bytes(memory.data() + 5000 + distance, memory.data() + 5000, expected.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), memory.begin() + 5000 + distance)) << distance;
  }
}

}  // namespace
}  // namespace ronde
