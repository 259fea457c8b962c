#include "launch/job_outcome.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>

namespace ronde::launch {
namespace {

/// Three ranks, of which 2 is on the second host; they begin after 10 s and start in 1 s.
class JobOutcomeTest : public testing::Test {
 protected:
  JobOutcomeTest() {
    job_.note_begin(10 * kSecond);
    for (int rank = 0; rank < 3; ++rank) {
      job_.note_start(rank, 11 * kSecond, rank == 2 ? 1 : 0);
    }
  }
  bool ends(int rank, int code, Nanoseconds moment, bool is_stopping = false) {
    return job_.note_end({rank, false, code, moment}, is_stopping);
  }
  void expect(int exit_code, const std::string& sentence, int stopped_by = 0, Nanoseconds stopped_at = 0) const {
    const JobEnd end = job_.verdict(stopped_by, stopped_at);
    EXPECT_EQ(end.exit_code, exit_code);
    EXPECT_EQ(end.sentence, sentence);
  }

  JobOutcome job_{"./train", 3, {"node1", "node2"}};
};

TEST_F(JobOutcomeTest, SaysNothingIfAllWentWell) {
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(ends(rank, 0, 20 * kSecond));
  }
  expect(0, "");
}

TEST_F(JobOutcomeTest, IsTheFirstFailuresOnItsHost) {
  EXPECT_FALSE(ends(0, 0, 20 * kSecond));
  EXPECT_TRUE(ends(2, 7, 21 * kSecond));
  EXPECT_FALSE(ends(1, 3, 22 * kSecond)) << "the second";
  expect(7, "rank 2 on node2 ended with code 7 after 10.0 s; rank 1 then ended with code 3");
}

TEST_F(JobOutcomeTest, OfARankWhoseStartIsNotKnownTheJobsCounts) {
  JobOutcome job("./train", 1, {"node1", "node2"});
  job.note_begin(10 * kSecond);
  EXPECT_TRUE(job.note_end({0, true, SIGKILL, 15 * kSecond}, false));
  EXPECT_EQ(job.verdict(0, 0).sentence, "rank 0 on node1 was killed by signal 9 (SIGKILL) after 5.0 s");
}

TEST_F(JobOutcomeTest, AfterAStopFailuresAreItsConsequence) {
  EXPECT_FALSE(ends(0, 0, 20 * kSecond));
  job_.note_stop();
  EXPECT_FALSE(ends(1, 1, 21 * kSecond, true));
  EXPECT_FALSE(ends(2, 1, 21 * kSecond, true));
  expect(128 + SIGINT, "stopped by signal 2 (SIGINT) after 4.0 s; ranks 1, 2 then ended with code 1", SIGINT,
         14 * kSecond);
}

TEST_F(JobOutcomeTest, AFailureBeforeAStopStays) {
  EXPECT_TRUE(ends(1, 1, 20 * kSecond));
  job_.note_stop();
  ends(0, 0, 21 * kSecond, true);
  expect(1, "rank 1 on node1 ended with code 1 after 9.0 s; rank 0 then ended with code 0", SIGTERM, 21 * kSecond);
}

TEST_F(JobOutcomeTest, AStopAfterAllRanksHaveEndedChangesNothing) {
  for (int rank = 0; rank < 3; ++rank) {
    ends(rank, 0, 20 * kSecond);
  }
  job_.note_stop();
  expect(0, "", SIGPIPE, 21 * kSecond);
}

TEST_F(JobOutcomeTest, AStopThatWasNotNotedIsOfAllRanks) {
  for (int rank = 0; rank < 3; ++rank) {
    ends(rank, 0, 20 * kSecond);
  }
  expect(128 + SIGINT, "stopped by signal 2 (SIGINT) after 11.0 s; ranks 0, 1, 2 then ended with code 0", SIGINT,
         21 * kSecond);  // of a launcher that only writes the ranks' output yet
}

TEST_F(JobOutcomeTest, ARankThatCouldNotStartComesBeforeAll) {
  EXPECT_TRUE(ends(0, 7, 20 * kSecond));
  job_.note_failed_start(1, true, EACCES);
  expect(126, "cannot run './train': Permission denied");
}

TEST_F(JobOutcomeTest, OfLostHostsTheFirstCounts) {
  job_.note_loss("host node2 is lost");
  job_.note_loss("host node1 is lost");
  EXPECT_TRUE(ends(0, 1, 20 * kSecond)) << "it came later";
  expect(125, "host node2 is lost");
}

TEST_F(JobOutcomeTest, AFailureBeforeALossIsItsCauseUnlessItsRankWasLetDown) {
  RankEnd end{1, false, 7, 20 * kSecond, 19 * kSecond, true};
  JobOutcome other = job_;
  EXPECT_TRUE(other.note_end(end, false));
  other.note_loss("host node2 is lost");
  EXPECT_EQ(other.verdict(0, 0).exit_code, 125);
  EXPECT_EQ(other.verdict(0, 0).sentence, "host node2 is lost");
  end.let_down = false;
  EXPECT_TRUE(job_.note_end(end, false));
  job_.note_loss("host node2 is lost");
  expect(7, "rank 1 on node1 ended with code 7 after 9.0 s; then host node2 is lost");
}

TEST_F(JobOutcomeTest, ProcessesThatCouldNotBeKilledAreAFailureOfTheirOwn) {
  job_.note_unkillable(0);
  expect(0, "");
  job_.note_unkillable(2);
  job_.note_unkillable(1);
  expect(125, "3 processes could not be killed");
  ends(0, 7, 20 * kSecond);
  expect(7, "rank 0 on node1 ended with code 7 after 9.0 s; 3 processes could not be killed");
}

TEST(JobOutcome, ALauncherOfRanksIsCalledByItsName) {
  const auto end_of = [](bool is_stopping, int code) {
    JobOutcome job("mpirun", 1, {"node1"}, true);
    job.note_begin(0);
    job.note_start(0, kSecond, 0);
    if (is_stopping) {
      job.note_stop();
    }
    job.note_end({0, false, code, 3 * kSecond}, is_stopping);
    return job.verdict(is_stopping ? 2 : 0, 2 * kSecond);
  };
  EXPECT_EQ(end_of(false, 0).sentence, "");
  EXPECT_EQ(end_of(false, 7).exit_code, 7);
  EXPECT_EQ(end_of(false, 7).sentence, "mpirun ended with code 7 after 2.0 s");
  EXPECT_EQ(end_of(true, 1).exit_code, 130);
  EXPECT_EQ(end_of(true, 1).sentence, "stopped by signal 2 (SIGINT) after 2.0 s");
}

}  // namespace
}  // namespace ronde::launch
