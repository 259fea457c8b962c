#include "launch/stop_policy.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace ronde::launch {
namespace {

constexpr Nanoseconds kGrace = 5 * kSecond;

TEST(StopPolicy, DoesNothingWhileAllIsWell) {
  StopPolicy policy(kGrace);
  EXPECT_EQ(policy.due(0), 0);
  EXPECT_EQ(policy.due(kNever - 1), 0);
  EXPECT_EQ(policy.next_deadline(), kNever);
}

TEST(StopPolicy, AfterAFailureTheOthersGetTwoGraces) {
  StopPolicy policy(kGrace);
  policy.failure(10 * kSecond);
  EXPECT_EQ(policy.due(10 * kSecond), 0);
  EXPECT_EQ(policy.next_deadline(), 15 * kSecond);
  policy.failure(12 * kSecond);  // another one changes nothing
  EXPECT_EQ(policy.next_deadline(), 15 * kSecond);
  EXPECT_EQ(policy.due(15 * kSecond), SIGTERM);
  EXPECT_EQ(policy.due(15 * kSecond), 0);
  EXPECT_EQ(policy.due(20 * kSecond), SIGKILL);
  EXPECT_EQ(policy.due(kNever - 1), 0) << "told once";
  EXPECT_EQ(policy.next_deadline(), kNever);
  EXPECT_EQ(policy.stopped_by(), 0);
}

TEST(StopPolicy, InterruptOnceStopsInOrder) {
  StopPolicy policy(kGrace);
  policy.stop_signal(SIGINT, kSecond);
  EXPECT_EQ(policy.due(kSecond), SIGINT);
  EXPECT_EQ(policy.due(kSecond), 0);
  policy.failure(2 * kSecond);  // ranks that end on the interrupt with an error are no reason to wait longer
  EXPECT_EQ(policy.due(6 * kSecond), SIGTERM);
  EXPECT_EQ(policy.due(11 * kSecond), SIGKILL);
  EXPECT_EQ(policy.stopped_by(), SIGINT);
  EXPECT_EQ(policy.stopped_at(), kSecond);
}

TEST(StopPolicy, InterruptTwiceKillsAtOnce) {
  StopPolicy policy(kGrace);
  policy.stop_signal(SIGINT, kSecond);
  EXPECT_EQ(policy.due(kSecond), SIGINT);
  policy.stop_signal(SIGINT, kSecond + 400 * kMillisecond);
  EXPECT_EQ(policy.due(kSecond + 400 * kMillisecond), SIGKILL);
  policy.stop_signal(SIGINT, 3 * kSecond);
  EXPECT_EQ(policy.due(3 * kSecond), 0);
}

TEST(StopPolicy, OneKeyPressThatArrivesTwiceIsOne) {
  StopPolicy policy(kGrace);
  policy.stop_signal(SIGINT, kSecond);
  EXPECT_EQ(policy.due(kSecond), SIGINT);
  policy.stop_signal(SIGINT, kSecond + 5 * kMillisecond);
  EXPECT_EQ(policy.due(kSecond + 5 * kMillisecond), 0);
}

TEST(StopPolicy, TerminateGoesStraightToSigterm) {
  StopPolicy policy(kGrace);
  policy.stop_signal(SIGTERM, 0);
  EXPECT_EQ(policy.due(0), SIGTERM);
  policy.stop_signal(SIGTERM, 1);
  EXPECT_EQ(policy.due(1), 0) << "timeout(1) sends it twice";
  EXPECT_EQ(policy.due(kGrace), SIGKILL);
  EXPECT_EQ(policy.stopped_by(), SIGTERM);
}

TEST(StopPolicy, TerminateOvertakesAnInterrupt) {
  StopPolicy policy(kGrace);
  policy.stop_signal(SIGINT, kSecond);
  EXPECT_EQ(policy.due(kSecond), SIGINT);
  policy.stop_signal(SIGTERM, 2 * kSecond);
  EXPECT_EQ(policy.due(2 * kSecond), SIGTERM);
  EXPECT_EQ(policy.stopped_by(), SIGINT) << "the first decides the exit code";
}

TEST(StopPolicy, InterruptDuringTheGraceAfterAFailure) {
  StopPolicy policy(kGrace);
  policy.failure(0);
  policy.stop_signal(SIGINT, kSecond);
  EXPECT_EQ(policy.due(kSecond), SIGINT);
  EXPECT_EQ(policy.due(6 * kSecond), SIGTERM);
}

TEST(StopPolicy, ASecondInterruptKillsInEveryPhase) {
  StopPolicy policy(kGrace);
  policy.stop_signal(SIGTERM, kSecond);
  EXPECT_EQ(policy.due(kSecond), SIGTERM);
  policy.stop_signal(SIGINT, 2 * kSecond);
  EXPECT_EQ(policy.due(2 * kSecond), 0) << "the first key press; it is stopping already";
  policy.stop_signal(SIGINT, 3 * kSecond);
  EXPECT_EQ(policy.due(3 * kSecond), SIGKILL);
}

TEST(StopPolicy, AFailedStartKills) {
  StopPolicy policy(kGrace);
  policy.start_failure();
  EXPECT_EQ(policy.due(0), SIGKILL);
}

TEST(StopPolicy, NoGraceMeansAtOnce) {
  StopPolicy policy(0);
  policy.failure(7);
  EXPECT_EQ(policy.due(7), SIGTERM);
  EXPECT_EQ(policy.due(7), SIGKILL);
}

}  // namespace
}  // namespace ronde::launch
