#include "collectives/tuning/host_thresholds.h"

#include <gtest/gtest.h>

namespace ronde::collectives {
namespace {

constexpr Thresholds kFirsts = {.inlined = 1, .one_shot = 2, .staged = 3, .chunk = 256, .stream = 5};
constexpr Thresholds kAnother = {.inlined = 0, .one_shot = 0, .staged = 0, .chunk = 128, .stream = 0};

TEST(HostThresholds, ALineHoldsEveryNumberOfARow) {
  for (const Thresholds& row : {kFirsts, kAnother, Thresholds()}) {
    transport::RulesLine line;
    store(row, line);
    EXPECT_EQ(load_thresholds(line), row);
  }
}

TEST(HostThresholds, ALineInWhichNothingWasStoredHasTheDefaultRow) {
  transport::RulesLine line;
  line.numbers[0] = 7;
  EXPECT_EQ(load_thresholds(line), Thresholds());
}

TEST(HostThresholds, TheRowOfTheFirstRankIsEveryones) {
  transport::RulesLine line;
  HostThresholds first(line);
  HostThresholds second(line);  // made before the first rank has stored its row
  store(kFirsts, line);
  EXPECT_EQ(first.in_force(), kFirsts);
  EXPECT_EQ(second.in_force(), kFirsts);
}

TEST(HostThresholds, AnotherRowCountsFromWhereItIsSet) {
  transport::RulesLine line;
  store(kFirsts, line);
  HostThresholds thresholds(line);
  EXPECT_EQ(thresholds.in_force(), kFirsts);
  thresholds.set(kAnother);
  EXPECT_EQ(thresholds.in_force(), kAnother);
  EXPECT_EQ(HostThresholds(line).in_force(), kFirsts) << "the line stays as it is";
}

TEST(HostThresholds, ARowThatIsSetFirstNeedsNoLine) {
  const transport::RulesLine line;
  HostThresholds thresholds(line);
  thresholds.set(kAnother);
  EXPECT_EQ(thresholds.in_force(), kAnother);
}

}  // namespace
}  // namespace ronde::collectives
