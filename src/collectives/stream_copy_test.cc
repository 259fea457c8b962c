#include "collectives/stream_copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace ronde::collectives {
namespace {

TEST(StreamCopy, CopiesAnyBytesToAnyPlaceAndNothingBeside) {
  std::vector<std::byte> from(1000);
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<std::byte>(i * 7);
  }
  for (const std::size_t bytes : {0u, 1u, 15u, 63u, 64u, 65u, 127u, 128u, 200u, 700u}) {
    for (const std::size_t from_offset : {0u, 1u, 16u}) {
      for (std::size_t offset = 0; offset < 70; ++offset) {
        std::vector<std::byte> expected(1000, std::byte{0xee});
        std::vector<std::byte> to = expected;
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(from_offset), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(offset));
        stream_copy(to.data() + offset, from.data() + from_offset, bytes);
        streams_done();
        ASSERT_EQ(to, expected) << bytes << " bytes to " << offset;
      }
    }
  }
}

}  // namespace
}  // namespace ronde::collectives
