#include "collectives/schedule/phase_timetable.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace ronde::collectives {
namespace {

TEST(PhaseTimetable, OfNoChunkIsEmpty) { EXPECT_EQ(PhaseTimetable::of_one_turn(0).stages(), 0u); }

TEST(PhaseTimetable, OneChunkGoesThroughItsPhasesInOrder) {
  const PhaseTimetable table = PhaseTimetable::of_one_turn(1);
  ASSERT_EQ(table.stages(), table.phases());
  for (std::size_t phase = 0; phase < table.phases(); ++phase) {
    EXPECT_EQ(table.at(phase).phase, phase);
    EXPECT_EQ(table.stage_of(phase, 0), phase);
  }
  EXPECT_EQ(table.after_window(0), 0u);
  EXPECT_EQ(table.after_phase_before(3, 0), 3u);
}

class Timetables : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Counts, Timetables, testing::Values(1, 2, 5, 6, 7, 8, 100));

TEST_P(Timetables, EachPhaseOfEachComesOnceAndAfterTheOneBefore) {
  const PhaseTimetable table = PhaseTimetable::of_one_turn(GetParam());
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (std::size_t stage = 0; stage < table.stages(); ++stage) {
    const PhaseTimetable::At at = table.at(stage);
    EXPECT_TRUE(seen.emplace(at.phase, at.chunk).second);
    EXPECT_EQ(table.stage_of(at.phase, at.chunk), stage);
    if (at.phase > 0) {
      EXPECT_EQ(table.after_phase_before(at.phase, at.chunk), table.stage_of(at.phase - 1, at.chunk) + 1);
      EXPECT_LE(table.after_phase_before(at.phase, at.chunk), stage);
    }
    if (at.chunk > 0) {
      EXPECT_LT(table.stage_of(at.phase, at.chunk - 1), stage);
    }
  }
  EXPECT_EQ(seen.size(), table.phases() * GetParam());
}

TEST_P(Timetables, WhatIsKeptOfAChunkIsNeededNoMoreWhenItsPlaceIsTaken) {
  const PhaseTimetable table = PhaseTimetable::of_one_turn(GetParam());
  for (std::size_t chunk = table.window(); chunk < GetParam(); ++chunk) {
    EXPECT_EQ(table.after_window(chunk), table.stage_of(2, chunk - table.window()) + 1);
    EXPECT_LE(table.after_window(chunk), table.stage_of(0, chunk));
  }
  // Four chunks may be on the wire: phase 1 of so many comes before phase 2 of the first.
  for (std::size_t chunk = 0; chunk + 3 < GetParam(); ++chunk) {
    EXPECT_LT(table.stage_of(1, chunk + 3), table.stage_of(2, chunk));
  }
}

}  // namespace
}  // namespace ronde::collectives
