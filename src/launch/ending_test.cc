#include "launch/ending.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>

namespace ronde::launch {
namespace {

TEST(Ending, ExitCodesAreThoseOfAShell) {
  EXPECT_EQ((RankEnd{0, false, 3, 0}).exit_code(), 3);
  EXPECT_EQ((RankEnd{0, true, SIGKILL, 0}).exit_code(), 137);
  EXPECT_FALSE((RankEnd{0, false, 0, 0}).failed());
  EXPECT_TRUE((RankEnd{0, true, SIGHUP, 0}).failed());
}

TEST(Ending, SaysWhoFailedFirstAndHowTheOthersFollowed) {
  const std::vector<RankEnd> ends = {{3, false, 0, 1 * kSecond},
                                     {1, true, SIGKILL, 13 * kSecond + 340 * kMillisecond},
                                     {2, false, 1, 14 * kSecond},
                                     {0, false, 1, 14 * kSecond},
                                     {4, true, SIGTERM, 15 * kSecond}};
  EXPECT_EQ(failure_sentence(ends, 1, "node7", kSecond),
            "rank 1 on node7 was killed by signal 9 (SIGKILL) after 12.3 s; ranks 0, 2 then ended with code 1; rank 4 "
            "then was killed by signal 15 (SIGTERM)");
  EXPECT_EQ(failure_sentence({{0, false, 7, kSecond}}, 0, "h", kSecond), "rank 0 on h ended with code 7 after 0.0 s");
}

std::string first_of(std::vector<RankEnd> ends) {
  const std::size_t first = put_first_failure_first(ends);
  return failure_sentence(ends, first, "h", 0);
}

TEST(Ending, WhoFailedFirstIsNotWhoWasLetDown) {
  // Rank 1 took longer to exit than those whose calls it made fail.
  EXPECT_EQ(first_of({{2, false, 1, 11 * kSecond, 10 * kSecond, true},
                      {0, false, 1, 11 * kSecond, 10 * kSecond, true},
                      {1, false, 3, 12 * kSecond, 9 * kSecond}}),
            "rank 1 on h ended with code 3 after 12.0 s; ranks 0, 2 then ended with code 1");
  // Both failed by themselves; the launcher ended rank 2, which had left before.
  EXPECT_EQ(first_of({{1, false, 3, 11 * kSecond, 10 * kSecond},
                      {0, false, 7, 12 * kSecond, 9 * kSecond},
                      {2, true, SIGTERM, 12 * kSecond, 9 * kSecond}}),
            "rank 1 on h ended with code 3 after 11.0 s; rank 0 then ended with code 7; rank 2 then was killed by "
            "signal 15 (SIGTERM)");
  // It left after the failure, perhaps because it was told to end.
  EXPECT_EQ(first_of({{1, false, 1, 11 * kSecond, 10 * kSecond, true}, {0, false, 7, 16 * kSecond, 15 * kSecond}}),
            "rank 1 on h ended with code 1 after 11.0 s; rank 0 then ended with code 7");
}

TEST(Ending, SaysWhoHadLeftWhenARankWasLetDown) {
  EXPECT_EQ(first_of({{3, false, 0, 2 * kSecond, 1 * kSecond},
                      {1, false, 1, 11 * kSecond, 10 * kSecond, true},
                      {0, false, 0, 12 * kSecond, 9 * kSecond},
                      {2, true, SIGTERM, 16 * kSecond}}),
            "rank 1 on h ended with code 1 after 11.0 s; rank 2 then was killed by signal 15 (SIGTERM); ranks 0, 3 had "
            "left before");
}

TEST(Ending, SaysWhatStoppedTheJob) {
  EXPECT_EQ(stop_sentence(SIGINT, {{0, false, 0, 0}, {1, true, SIGINT, 0}, {2, true, SIGINT, 0}}, 1, 0, 3 * kSecond),
            "stopped by signal 2 (SIGINT) after 3.0 s; ranks 1, 2 then were killed by signal 2 (SIGINT)");
  EXPECT_EQ(stop_sentence(SIGPIPE, {}, 0, 0, kSecond), "stopped, since the reader of its output has gone, after 1.0 s");
}

TEST(Ending, SaysWhyACommandDidNotStart) {
  EXPECT_EQ(start_failure(0, "trian", true, ENOENT).sentence, "command not found: 'trian' is in no folder of PATH");
  EXPECT_EQ(start_failure(0, "trian", true, ENOENT).exit_code, 127);
  EXPECT_EQ(start_failure(0, "./trian", true, ENOENT).exit_code, 127);
  EXPECT_EQ(start_failure(0, "/etc", true, EACCES).sentence, "cannot run '/etc': Permission denied");
  EXPECT_EQ(start_failure(0, "/etc", true, EACCES).exit_code, 126);
  EXPECT_EQ(start_failure(5, "x", false, EAGAIN).exit_code, 125);
}

TEST(Ending, EverySignalHasSomeName) {
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signal_name(50), "signal 50");
}

}  // namespace
}  // namespace ronde::launch
