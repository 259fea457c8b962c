#include "collectives/tuning/derived_table.h"

#include <gtest/gtest.h>

namespace ronde::collectives {
namespace {

Measurement like_reference(double hand_over_times) {
  Measurement machine = kReference;
  machine.hand_over *= hand_over_times;
  return machine;
}

TEST(DerivedTable, AMachineLikeTheReferenceGetsTheBuiltInTable) {
  for (int ranks = 2; ranks <= 16; ++ranks) {
    EXPECT_EQ(derive_row(kReference, ranks), Table::built_in().of(ranks)) << ranks;
  }
}

TEST(DerivedTable, TheLongerAWaitTheLongerOneShotIsTheQuicker) {
  for (int ranks : {3, 4, 8, 64, 256}) {
    std::uint64_t before = 0;
    for (double times = 0.01; times < 100; times *= 1.3) {
      const std::uint64_t now = derive_row(like_reference(times), ranks).one_shot;
      EXPECT_GE(now, before) << ranks << " ranks, " << times;
      before = now;
    }
    EXPECT_EQ(derive_row(like_reference(2), ranks).one_shot, 2 * Table::built_in().of(ranks).one_shot);
  }
  EXPECT_EQ(derive_row(like_reference(100), 2), Table::built_in().of(2)) << "two ranks use nothing else";
}

TEST(DerivedTable, SlowerFetchingMakesOneShotTheDearer) {
  Measurement slow = kReference;
  slow.fetch /= 2;
  EXPECT_LT(derive_row(slow, 4).one_shot, derive_row(kReference, 4).one_shot);
}

TEST(DerivedTable, NoNumberLeavesAQuarterToFourTimesTheBuiltIn) {
  for (double hand_over : {1e-6, 1.0, 1e9}) {
    for (double bandwidth : {1e-6, 10.0, 1e9}) {
      for (std::uint64_t cache : {0ull, 1ull, 1ull << 20, 1ull << 40}) {
        const Measurement machine{hand_over, bandwidth, bandwidth, cache, cache};
        for (int ranks : {2, 3, 5, 8, 9, 33, 256}) {
          const Thresholds built_in = Table::built_in().of(ranks);
          const Thresholds row = derive_row(machine, ranks);
          EXPECT_EQ(row.inlined, built_in.inlined);
          for (auto field : {&Thresholds::one_shot, &Thresholds::staged, &Thresholds::chunk, &Thresholds::stream}) {
            EXPECT_GE(row.*field, built_in.*field / 4) << ranks;
            EXPECT_LE(row.*field, built_in.*field * 4) << ranks;
          }
        }
      }
    }
  }
}

TEST(DerivedTable, SmallCachesMakeSmallChunks) {
  Measurement small = kReference;
  small.near_cache = 1 << 20;
  EXPECT_EQ(derive_row(small, 2).chunk, 131072u);
  EXPECT_EQ(derive_row(small, 4).staged, 131072u);
  small.near_cache = 2 << 20;
  small.shared_cache = 16 << 20;
  EXPECT_EQ(derive_row(small, 2).stream, std::uint64_t{4} << 20) << "two inputs and two outputs fill it";
  small.shared_cache = 8 << 20;
  EXPECT_EQ(derive_row(small, 16).chunk, 61440u) << "so that 16 ranks' slots take half of it";
}

TEST(DerivedTable, EveryRowComesBackFromItsText) {
  for (double times : {0.1, 0.7, 1.0, 1.9, 30.0}) {
    const Table table = derive_table(like_reference(times));
    Result<Table> again = Table::parse(table.text());
    ASSERT_TRUE(again) << again.status().message();
    EXPECT_EQ(*again, table);
    for (int ranks : {2, 3, 8, 16, 64, 256}) {
      EXPECT_EQ(table.of(ranks), derive_row(like_reference(times), ranks)) << ranks;
    }
  }
}

}  // namespace
}  // namespace ronde::collectives
