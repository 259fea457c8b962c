#include "launch/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::launch {
namespace {

using testing::Contains;
using testing::IsSupersetOf;
using testing::UnorderedElementsAre;

constexpr RankPlace kPlace{.rank = 3, .size = 8, .local_rank = 1, .local_size = 2, .cross_rank = 1, .cross_size = 4};

JobFacts facts() { return {"unix:/run/x/store", "c0ffee", "node7", 4711, 3, "127.0.0.1", ""}; }

TEST(Environment, NamesTheRanksPlaceForRondeTorchAndHorovod) {
  EXPECT_THAT(rank_environment({}, {}, kPlace, facts()),
              UnorderedElementsAre(
                  "RONDE_RANK=3", "RONDE_SIZE=8", "RONDE_LOCAL_RANK=1", "RONDE_LOCAL_SIZE=2", "RONDE_CROSS_RANK=1",
                  "RONDE_CROSS_SIZE=4", "RONDE_STORE=unix:/run/x/store", "RONDE_KEY=c0ffee", "RANK=3", "WORLD_SIZE=8",
                  "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4711",
                  "RONDE_MASTER=127.0.0.1:4711", "HOROVOD_RANK=3", "HOROVOD_SIZE=8", "HOROVOD_LOCAL_RANK=1",
                  "HOROVOD_LOCAL_SIZE=2", "HOROVOD_CROSS_RANK=1", "HOROVOD_CROSS_SIZE=4", "HOROVOD_HOSTNAME=node7",
                  "PYTHONUNBUFFERED=1", "OMP_NUM_THREADS=3"));
}

TEST(Environment, KeepsWhatIsInheritedButNotAnotherJobsPlace) {
  const auto environment =
      rank_environment({"PATH=/bin", "EMPTY=", "A=b=c", "RONDE_RANK=77", "RANK=77", "broken"}, {}, kPlace, facts());
  EXPECT_THAT(environment, IsSupersetOf({"PATH=/bin", "EMPTY=", "A=b=c", "RONDE_RANK=3", "RANK=3"}));
  EXPECT_THAT(environment, testing::Not(Contains("broken")));
}

TEST(Environment, TheUserDecidesOnThreadsAndBuffering) {
  EXPECT_THAT(rank_environment({"OMP_NUM_THREADS=9", "PYTHONUNBUFFERED="}, {}, kPlace, facts()),
              IsSupersetOf({"OMP_NUM_THREADS=9", "PYTHONUNBUFFERED="}));
  EXPECT_THAT(rank_environment({}, {"OMP_NUM_THREADS=9"}, kPlace, facts()), Contains("OMP_NUM_THREADS=9"));
}

TEST(Environment, TheUsersSettingsComeLast) {
  EXPECT_THAT(rank_environment({"A=1"}, {"A=2", "MASTER_PORT=1", "A=3"}, kPlace, facts()),
              IsSupersetOf({"A=3", "MASTER_PORT=1", "RONDE_MASTER=127.0.0.1:4711"}));
}

TEST(Environment, SeveralHostsHaveAddresses) {
  JobFacts several = facts();
  several.master_address = "10.0.0.1";
  several.address = "10.0.0.7";
  EXPECT_THAT(rank_environment({}, {}, kPlace, several),
              IsSupersetOf({"MASTER_ADDR=10.0.0.1", "RONDE_MASTER=10.0.0.1:4711", "RONDE_ADDRESS=10.0.0.7"}));
}

TEST(Environment, AnotherLauncherOfRanksGetsNoPlaceInAJobOfOurs) {
  EXPECT_THAT(launcher_environment({"A=1", "PATH=/bin", "RONDE_KEY=mine", "RANK=3"}, {"A=2"}),
              UnorderedElementsAre("A=2", "PATH=/bin", "RONDE_KEY=mine", "RANK=3"));
  const std::vector<std::string> within = rank_environment({"PATH=/bin"}, {}, kPlace, facts());
  EXPECT_THAT(launcher_environment(within, {}),
              UnorderedElementsAre("PATH=/bin", "PYTHONUNBUFFERED=1", "OMP_NUM_THREADS=3"));
}

TEST(Environment, ASettingIsNameAndValue) {
  EXPECT_TRUE(check_setting("A=1"));
  EXPECT_TRUE(check_setting("A="));
  EXPECT_EQ(check_setting("A").message(), "'A' is not of the form NAME=value");
  EXPECT_FALSE(check_setting("=1"));
  EXPECT_FALSE(check_setting(""));
}

}  // namespace
}  // namespace ronde::launch
