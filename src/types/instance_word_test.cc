#include "types/instance_word.h"

#include <gtest/gtest.h>

namespace ronde {
namespace {

using Small = InstanceWord<std::uint8_t, 4>;
using Large = InstanceWord<std::uint64_t, 40>;

TEST(InstanceWord, EveryPairOfSmallWordsIsComparedAsItsDefinitionSays) {
  for (unsigned word = 0; word < 256; ++word) {
    for (unsigned wanted = 0; wanted < 256; ++wanted) {
      const bool is_same_epoch = word >> 4 == wanted >> 4;
      EXPECT_EQ(Small::has_reached(static_cast<std::uint8_t>(word), static_cast<std::uint8_t>(wanted)),
                is_same_epoch && (word & 15) >= (wanted & 15))
          << word << " " << wanted;
    }
    for (unsigned epoch = 0; epoch < 16; ++epoch) {
      EXPECT_EQ(Small::instance(static_cast<std::uint8_t>(word), epoch), word >> 4 == epoch ? word & 15 : 0);
    }
  }
}

TEST(InstanceWord, HoldsItsLimits) {
  static_assert(Large::kMaxEpoch == (1u << 24) - 1 && Small::kMaxEpoch == 15 && Small::kMaxInstance == 15);
  const std::uint64_t last = Large::encode(Large::kMaxEpoch, Large::kMaxInstance);
  EXPECT_EQ(last, ~std::uint64_t{0});
  EXPECT_EQ(Large::instance(last, Large::kMaxEpoch), Large::kMaxInstance);
  EXPECT_TRUE(Large::has_reached(last, last));
  EXPECT_TRUE(Large::has_reached(last, Large::encode(Large::kMaxEpoch, 1)));
  EXPECT_FALSE(Large::has_reached(last, Large::encode(0, 1)));
  EXPECT_FALSE(Large::has_reached(Large::encode(7, 5), Large::encode(6, 5))) << "of a later epoch";
}

struct Faulty {
  static constexpr bool ignores_epoch() { return true; }
};

TEST(InstanceWord, AFaultyOneTakesAnOlderEpochForThisOne) {
  using Wrong = InstanceWord<std::uint64_t, 40, Faulty>;
  EXPECT_TRUE(Wrong::has_reached(Wrong::encode(1, 3), Wrong::encode(2, 3)));
  EXPECT_EQ(Wrong::instance(Wrong::encode(1, 3), 2), 3u);
}

}  // namespace
}  // namespace ronde
