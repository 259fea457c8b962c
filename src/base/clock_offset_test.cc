#include "base/clock_offset.h"

#include <gtest/gtest.h>

namespace ronde {
namespace {

TEST(ClockOffset, IsNothingBeforeAnyEcho) {
  EXPECT_EQ(ClockOffset().here(1234), 1234);
  EXPECT_EQ(ClockOffset().round(), kNever);
}

TEST(ClockOffset, TheEchoWasMadeInTheMiddleOfItsRound) {
  ClockOffset offset;
  offset.note_echo(1000, 50, 1200);  // so 50 there was 1100 here
  EXPECT_EQ(offset.here(50), 1100);
  EXPECT_EQ(offset.here(90), 1140);
}

TEST(ClockOffset, MayBeOfAClockThatIsAhead) {
  ClockOffset offset;
  offset.note_echo(1000, 9000, 1010);
  EXPECT_EQ(offset.here(9005), 1010);
}

TEST(ClockOffset, TheFastestEchoCounts) {
  ClockOffset offset;
  offset.note_echo(1000, 0, 1200);
  offset.note_echo(2000, 1000, 2100);
  EXPECT_EQ(offset.here(0), 1050);
  EXPECT_EQ(offset.round(), 100);
  offset.note_echo(3000, 2010, 3100);
  EXPECT_EQ(offset.here(0), 1050) << "as fast is not faster";
  offset.note_echo(4000, 500, 9000);
  EXPECT_EQ(offset.here(0), 1050) << "slower";
}

}  // namespace
}  // namespace ronde
