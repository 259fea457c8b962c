// The environments are those that the launchers of Debian 12 were seen to make, without what nobody reads.
#include "site/started.h"

#include <gtest/gtest.h>

#include "site/testing/variables.h"

namespace ronde::site {
namespace {

using Recorded = std::map<std::string, std::string>;

const Recorded kSrun = {{"SLURM_JOB_ID", "7"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_PROCID", "3"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_NODEID", "1"},
                        {"SLURM_NTASKS", "4"},
                        {"SLURM_STEP_NUM_TASKS", "4"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                        {"SLURM_STEP_NODELIST", "rh[1-2]"},
                        {"SLURM_LAUNCH_NODE_IPADDR", "10.77.0.9"}};

Recorded with(Recorded base, const Recorded& more) {
  for (const auto& [name, value] : more) {
    base[name] = value;
  }
  return base;
}

Started only(const Recorded& variables) {
  const Result<std::optional<Started>> started = who_started(recorded(variables));
  EXPECT_TRUE(started) << started.status().message();
  EXPECT_TRUE(started && started.value());
  return started && started.value() ? *started.value() : Started();
}

bool nobody(const Recorded& variables) {
  const Result<std::optional<Started>> started = who_started(recorded(variables));
  return started && !started.value();
}

std::string refusal(const Recorded& variables) { return who_started(recorded(variables)).status().message(); }

TEST(Started, BySrun) {
  const Started started = only(kSrun);
  EXPECT_EQ(started.by, Started::By::srun);
  EXPECT_EQ(started.rank, 3);
  EXPECT_EQ(started.size, 4);
  EXPECT_EQ(started.local_size, 2);
  EXPECT_FALSE(started.is_on_one_host());
  EXPECT_EQ(started.first_host, "rh1");  // not who called srun
  EXPECT_EQ(started.job, "slurm/7/0");
  EXPECT_FALSE(started.has_pmi || started.has_pmix);
}

TEST(Started, BySrunWithPmi) {
  const Started two = only(with(kSrun, {{"PMI_FD", "9"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_JOBID", "7.0"}}));
  EXPECT_EQ(two.by, Started::By::srun);
  EXPECT_TRUE(two.has_pmi);
  EXPECT_EQ(two.local_size, 2);
  EXPECT_TRUE(only(with(kSrun, {{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}})).has_pmix);
}

TEST(Started, ABatchScriptAndAStepOfOneAreNobodys) {
  Recorded batch = kSrun;
  batch.erase("SLURM_STEP_ID");
  batch["SLURM_PROCID"] = "0";
  EXPECT_TRUE(nobody(batch));
  EXPECT_TRUE(nobody(with(kSrun, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})));
  EXPECT_TRUE(nobody({}));
  EXPECT_TRUE(nobody({{"WORLD_SIZE", "4"}, {"RANK", "1"}}));  // without a place to meet
}

TEST(Started, ByMpirun) {
  const Recorded hydra = {
      {"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"PMI_FD", "8"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}};
  EXPECT_EQ(only(hydra).name, "mpiexec");
  EXPECT_TRUE(only(hydra).has_pmi);
  EXPECT_EQ(only(hydra).local_size, 1);
  const Recorded open_mpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                             {"OMPI_COMM_WORLD_SIZE", "3"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                             {"PMIX_NAMESPACE", "123"},
                             {"PMIX_RANK", "2"}};
  EXPECT_EQ(only(open_mpi).rank, 2);
  EXPECT_TRUE(only(open_mpi).has_pmix && only(open_mpi).is_on_one_host());
  EXPECT_EQ(only(open_mpi).job, "mpi/123");
  // In an allocation its agents are steps of srun.
  EXPECT_EQ(only(with(kSrun, open_mpi)).name, "Open MPI's mpirun");
}

TEST(Started, ByTorchrun) {
  const Recorded torchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"}};
  const Started started = only(torchrun);
  EXPECT_EQ(started.by, Started::By::torchrun);
  EXPECT_EQ(started.rank, 5);
  EXPECT_EQ(started.first_host, "node1");
  EXPECT_FALSE(started.is_on_one_host());
  EXPECT_EQ(only(with(kSrun, torchrun)).name, "torchrun");  // srun has started its agents
  const Recorded by_hand = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1"}};
  EXPECT_TRUE(only(by_hand).is_on_one_host());
  EXPECT_TRUE(only(with(by_hand, {{"LOCAL_WORLD_SIZE", "1"}})).is_on_one_host());  // two agents on it
  EXPECT_FALSE(only(with(by_hand, {{"MASTER_ADDR", "node1"}})).is_on_one_host());
}

TEST(Started, WhatContradictsIsRefused) {
  const Recorded torch = {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "rh1"}, {"MASTER_PORT", "1"}};
  EXPECT_NE(refusal(with(kSrun, torch)).find("RANK=0 and WORLD_SIZE=4 contradict SLURM_PROCID=3"), std::string::npos);
  EXPECT_EQ(refusal(with(kSrun, with(torch, {{"RANK", "3"}}))), "");
  EXPECT_NE(refusal(with(torch, {{"RANK", "4"}})).find("contradict each other"), std::string::npos);
  EXPECT_NE(refusal(with(torch, {{"RANK", "two"}})).find("RANK is 'two'"), std::string::npos);
}

TEST(Started, WhatIsSetByHandMustAgree) {
  const Recorded by_hand = with(kSrun, {{"RONDE_RANK", "1"}, {"RONDE_SIZE", "2"}});
  EXPECT_NE(check_by_hand(recorded(by_hand)).message().find("RONDE_SIZE=2 contradict SLURM_PROCID=3"),
            std::string::npos);
  EXPECT_TRUE(check_by_hand(recorded(with(by_hand, {{"RONDE_MASTER", "127.0.0.1:1"}}))));  // `ronde run` in a step
  EXPECT_TRUE(check_by_hand(recorded(with(kSrun, {{"RONDE_RANK", "3"}, {"RONDE_SIZE", "4"}}))));
}

TEST(Started, ListsOfSlurm) {
  EXPECT_EQ(first_of_node_list("rh[1-2]"), "rh1");
  EXPECT_EQ(first_of_node_list("node[01-03,7],login"), "node01");
  EXPECT_EQ(first_of_node_list("a[3]b[4,5]-x,z"), "a3b4-x");
  EXPECT_EQ(first_of_node_list("login,rh1"), "login");
  EXPECT_EQ(first_of_node_list("rh[1"), "");
  EXPECT_EQ(first_of_node_list(""), "");
  EXPECT_EQ(entry_of_task_list("2(x3),1", 2), 2);
  EXPECT_EQ(entry_of_task_list("2(x3),1", 3), 1);
  EXPECT_EQ(entry_of_task_list("2(x3),1", 4), std::nullopt);
  EXPECT_EQ(entry_of_task_list("4", 0), 4);
  EXPECT_EQ(entry_of_task_list("2(x", 0), std::nullopt);
  EXPECT_EQ(entry_of_task_list("", 0), std::nullopt);
}

}  // namespace
}  // namespace ronde::site
